"""Options of self-play: fast searches, weights by surprise, mixed values, and gating."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training.states import arrays, assert_same, assert_same_but_for_rounding

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.self_play import (
    Gate,
    PlayoutCap,
    Search,
    SearchLoss,
    SearchPlayer,
    SelfPlay,
    SelfPlayConfig,
    match,
)
from hackmatrix_rl.algorithms.self_play._buffer import Buffer
from hackmatrix_rl.algorithms.self_play._games import OPTIONAL, Games, play_moves
from hackmatrix_rl.training.sharding import mesh, single_device

from .building import FIVE, FOUR, network, opinion, searched
from .test_buffer import GAMES, LENGTH, drawn_from, numbered, write
from .test_search import keys_for
from .test_self_play import SIZES, sample, trainer

pytestmark = pytest.mark.search

ALL = SearchLoss(surprise_weight=0.5, value_mix=0.25)
GATE = Gate(0.55, games=6, interval=2)
CAP = PlayoutCap(0.5, 2)


def test_without_the_options_state_and_program_have_none_of_their_arrays():
    plain = trainer()
    plain.start(jax.random.key(1))
    state = plain.state
    assert state.accepted is None
    assert [getattr(state.collector_state.buffer.moves, name) for name in OPTIONAL] == [None] * 3
    _, report = eqx.filter_eval_shape(plain.algorithm, plain.abstract_state())
    assert report.gated is None
    assert plain.algorithm.learn.loss.keeps == plain.algorithm.keeps == ()


KEYS = jax.random.split(jax.random.key(3), 4)


@eqx.filter_jit
def played(cap, keys, update=0, count=12):
    games = Games.start(FIVE, keys, opening=2)
    return play_moves(
        Search(8), FIVE, network(FIVE), games, jnp.int32(update), count, cap=cap, keeps=OPTIONAL
    )


@pytest.mark.nightly
def test_one_draw_decides_for_a_move_of_all_games_and_fast_searches_are_as_alone():
    _, moves, _ = played(CAP, KEYS)
    full = np.asarray(moves.policy_weight)
    assert set(full.ravel().tolist()) == {0.0, 1.0}
    assert (full == full[0]).all()
    # What a device plays does not depend on the games of another one.
    _, half, _ = played(CAP, KEYS[2:])
    for one, other in zip(arrays(half), arrays(moves), strict=True):
        np.testing.assert_array_equal(one, other[2:])
    numbers = jnp.arange(12, dtype=jnp.int32)
    drawn = [jax.vmap(CAP.draws_full, (None, 0))(jnp.int32(n), numbers) for n in range(2)]
    np.testing.assert_array_equal(full[0], drawn[0])
    assert not np.array_equal(*drawn), "each update draws anew"
    assert CAP.fast(Search(8)) == Search(2, gumbel_scale=0.0)
    assert CAP.fast(Search(8, simulations_second=1)) == Search(
        2, simulations_second=1, gumbel_scale=0.0
    )
    _, always, _ = played(PlayoutCap(1.0, 2), KEYS)
    _, plain, _ = played(None, KEYS)
    assert_same(always, plain)


@pytest.mark.nightly
def test_what_a_fast_search_finds_is_what_its_budget_finds():
    """A share so small that no move is searched fully."""
    games = Games.start(FIVE, KEYS, opening=2)
    _, moves, _ = played(PlayoutCap(1e-9, 3), KEYS, count=1)
    assert not moves.policy_weight.any()
    quiet = Search(3, gumbel_scale=0.0)
    found = searched(quiet, FIVE, network(FIVE), games.states, keys_for(games.states))
    np.testing.assert_allclose(moves.weights[:, 0], found.weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moves.expected[:, 0], found.expected, rtol=1e-5, atol=1e-6)


def test_surprise_and_expected_value_are_those_of_plain_python():
    games = Games.start(FIVE, KEYS, opening=4)
    likes = np.linspace(-1.0, 1.0, 10, dtype=np.float32)
    policy = eqx.tree_at(lambda policy: policy.logits, opinion(FIVE, value=0.3), jnp.asarray(likes))
    found = searched(Search(12), FIVE, policy, games.states, keys_for(games.states))
    legal = np.asarray(jax.vmap(FIVE.legal)(games.states))
    for game in range(4):
        here = legal[game]
        prior = np.exp(likes[here]) / np.exp(likes[here]).sum()
        weights = np.asarray(found.weights[game])[here].astype(np.float64)
        surprise = (weights * np.log(weights / prior)).sum()
        assert float(found.surprise[game]) == pytest.approx(surprise, rel=1e-3, abs=1e-5)
        tried = np.asarray(found.visits[game]) > 0
        share = np.asarray(found.weights[game])[tried]
        expected = (share * np.asarray(found.values[game])[tried]).sum() / share.sum()
        assert float(found.expected[game]) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert np.ptp(np.asarray(found.surprise)) > 0


def optional(**given):
    given = {name: jnp.asarray(each, jnp.float32) for name, each in given.items()}
    mask = np.ones((3, 10), bool)
    weights = np.full((3, 10), 0.1)
    weights[1] = np.eye(10)[2]
    plain = sample(weights, mask, [1.0, -0.5, 9.0], [1, 1, 0])
    names = list(given)
    return eqx.tree_at(
        lambda sample: [getattr(sample, name) for name in names],
        plain,
        [given[name] for name in names],
        is_leaf=lambda leaf: leaf is None,
    )


def losses(loss, positions):
    same, given = loss.prepare(positions)
    total, means = same(opinion(FIVE, value=0.25, favourite=0), given)
    return float(total), float(means.policy_loss), float(means.value_loss), given


def test_a_position_without_a_full_search_gives_a_value_and_no_policy():
    plain = losses(SearchLoss(), optional())
    total, policy, value, given = losses(SearchLoss(), optional(policy_weight=[0, 1, 1]))
    assert value == plain[2]
    assert policy == pytest.approx(50.0)  # that of the second position alone
    assert policy != pytest.approx(plain[1])
    assert total == pytest.approx(policy + value)
    assert given.policy_weight.tolist() == [0.0, 3.0, 0.0]
    # Without a full search in the batch there is no policy to learn, and no NaN.
    assert losses(SearchLoss(), optional(policy_weight=[0, 0, 1]))[1] == 0.0


def test_weights_by_surprise_have_mean_1_and_half_is_in_proportion_to_it():
    loss = SearchLoss(surprise_weight=0.5)
    given = losses(loss, optional(surprise=[3.0, 1.0, 50.0]))[3]
    np.testing.assert_allclose(given.valid, [1.875, 1.125, 0.0], rtol=1e-5)
    both = losses(loss, optional(surprise=[3.0, 1.0, 50.0], policy_weight=[0, 1, 1]))[3]
    np.testing.assert_allclose(both.valid, [1.875, 1.125, 0.0], rtol=1e-5)
    np.testing.assert_allclose(both.policy_weight, [0.0, 3.0, 0.0], rtol=1e-5)
    equal = losses(SearchLoss(surprise_weight=1.0), optional(surprise=[0.0, 0.0, 0.0]))[3]
    assert np.isfinite(equal.valid).all()


def test_the_value_is_a_mix_of_the_result_and_the_searchs_value():
    given = losses(SearchLoss(value_mix=0.25), optional(expected=[0.2, 0.1, 0.0]))[3]
    np.testing.assert_allclose(given.value[:2], [0.75 + 0.05, -0.375 + 0.025], rtol=1e-5)


def test_the_buffer_gives_what_was_kept_of_each_position():
    moves = numbered(0)
    seen = moves.observation.astype(jnp.float32)
    moves = replace(moves, policy_weight=seen % 2, expected=seen + 0.5, surprise=2 * seen)
    spec = hm.EnvSpec(2, jax.ShapeDtypeStruct((), jnp.int32))
    buffer = write(Buffer.empty(spec, games=GAMES, length=LENGTH, keeps=OPTIONAL), moves)
    buffer = write(buffer, replace(moves, ended=jnp.ones_like(moves.ended)))
    drawn = drawn_from(buffer, jax.random.split(jax.random.key(0), 2))
    assert drawn.valid.all()
    seen = np.asarray(drawn.observation)
    np.testing.assert_array_equal(drawn.policy_weight, seen % 2)
    np.testing.assert_array_equal(drawn.expected, seen + 0.5)
    np.testing.assert_array_equal(drawn.surprise, 2 * seen)


def all_on(**changes):
    return trainer(
        game=FOUR, loss=ALL, search=Search(4), playout_cap=CAP, gate=GATE, opening=1, **changes
    )


@pytest.mark.nightly
def test_the_learner_plays_only_after_it_has_passed_and_metrics_tell_of_it():
    """With a gate of 0 every candidate passes; with one of 1 a drawn match is not enough."""
    found = {}
    for score in (0.0, 1.0):
        gate = Gate(score, games=2, interval=2)
        made = trainer(game=FOUR, search=Search(2), gate=gate)
        made.start(jax.random.key(1))
        assert_same(made.policy, made.algorithm.initial_policy)
        for update in range(1, 5):
            metrics = made.dispatch(1).learning
            assert ("gate_score" in metrics) == (update % 2 == 0)
            assert metrics["gates_passed"] == (score == 0.0 and update % 2 == 0)
            if score == 0.0 and update % 2 == 0:
                assert_same(made.policy, made.state.learner.policy)
        found[score] = made
    assert_same(found[1.0].policy, found[1.0].algorithm.initial_policy)
    learned, first = found[1.0].state.learner.policy, found[1.0].policy
    assert not all(map(np.array_equal, arrays(learned), arrays(first)))


@pytest.mark.nightly
def test_a_gates_match_is_that_of_match():
    strong, weak = network(FIVE, 1), network(FIVE, 2)
    search, key = Search(6), jax.random.key(4)
    gate, one = Gate(0.55, games=6), single_device()
    given = gate.half_points, one, search, FIVE
    points = eqx.filter_jit(lambda f, *given: f(*given))(*given, strong, weak, key)
    players = SearchPlayer(strong, search), SearchPlayer(weak, search)
    result = match(*players, FIVE, games=6, key=key, opening=2)
    assert int(points) == 2 * result.wins + result.draws


@pytest.mark.parametrize(
    ("score", "games", "needed"),
    [(0.55, 20, 22), (0.55, 40, 44), (0.5, 6, 6), (0.55, 6, 7), (1, 4, 8)],
)
def test_a_score_of_exactly_the_gate_passes(score, games, needed):
    gate = Gate(score, games=games)
    assert gate.needed == needed
    old, new = opinion(FIVE), opinion(FIVE, value=1.0)
    for points, due, value in ((needed, True, 1.0), (needed - 1, True, 0.0), (needed, False, 0.0)):
        chosen, gated = gate.choose(jnp.bool_(due), jnp.int32(points), new, old)
        assert float(chosen.value) == value
        assert int(gated.passed) == (value == 1.0)
        assert float(gated.score) == pytest.approx(points / 2 / games if due else 0.0)


@pytest.mark.nightly
def test_with_all_options_training_resumes_in_the_same_bits_in_dispatches_of_any_size(tmp_path):
    straight, resumed = all_on(updates=3), all_on(seed=5)
    straight.start(jax.random.key(1))
    straight.dispatch(3)
    straight.save(tmp_path / "state")
    resumed.load(tmp_path / "state")
    straight.dispatch(3)
    for _ in range(3):
        resumed.dispatch(1)
    assert_same(resumed.state, straight.state)


def test_a_share_of_the_moves_has_a_full_search():
    numbers = jnp.arange(1000, dtype=jnp.int32)
    drawn = jax.vmap(PlayoutCap(0.25, 2).draws_full, (None, 0))(jnp.int32(3), numbers)
    assert 0.2 < float(jnp.mean(drawn)) < 0.3


@pytest.mark.nightly
def test_a_population_has_all_options():
    """The draws and the matches are those of all members at once."""
    member = all_on()
    several = hm.Trainer(hm.Population(member.algorithm, 2))
    several.start(jax.random.key(1))
    several.dispatch(4)
    weights = np.asarray(several.state.collector_state.buffer.moves.policy_weight)
    np.testing.assert_array_equal(weights[0], weights[1])
    assert 0 < weights.mean() < 1


@pytest.mark.nightly
def test_with_all_options_training_does_not_depend_on_the_mesh():
    """The 3 pairs of a match do not divide over 2 devices."""
    states = []
    for shape in ("data=1", "data=2"):
        made = all_on(mesh=mesh(shape))
        made.start(jax.random.key(1))
        made.dispatch(4)
        states.append(made.state)
    assert_same_but_for_rounding(*states, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: PlayoutCap(0.0, 4),
            "full_share 0.0 is not a probability above 0; use full_share=",
        ),
        (lambda: PlayoutCap(1.5, 4), "full_share 1.5 is not a probability"),
        (lambda: PlayoutCap(0.5, 0), "simulations must be at least 1, not 0"),
        (lambda: Gate(1.5), "score 1.5 is not within 0..1; use score=0.55"),
        (lambda: Gate(games=5), "games 5 is odd.*use games=6"),
        (lambda: Gate(games=0), "games must be at least 2, not 0"),
        (lambda: Gate(interval=0), "interval must be at least 1, not 0"),
        (lambda: SearchLoss(value_mix=1.5), r"value_mix must be in \[0, 1\], not 1.5"),
        (lambda: SearchLoss(surprise_weight=-1), r"surprise_weight must be in \[0, 1\], not -1"),
        (
            lambda: SelfPlay(
                FIVE, network(FIVE), search=Search(8), playout_cap=PlayoutCap(0.5, 9), **SIZES
            ),
            "simulations 9 is more than the num_simulations 8 of a full search; use simulations=2",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_the_settings_make_the_options():
    config = SelfPlayConfig(
        **{"full_search_share": 0.5, "fast_simulations": 2, "surprise_weight": 0.5},
        **{"value_mix": 0.25, "gate": 0.6, "gate_games": 4, "gate_interval": 3},
    )
    play = config.build(config.policy(key=jax.random.key(0)), precision="f32", mesh=single_device())
    assert play.playout_cap == PlayoutCap(0.5, 2)
    assert play.gate == Gate(0.6, games=4, interval=3)
    assert play.learn.loss == SearchLoss(1.0, 0.5, 0.25)
    plain = SelfPlayConfig()
    assert (plain.playout_cap(), plain.gating()) == (None, None)
