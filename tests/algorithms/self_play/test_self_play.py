"""Training: it learns what is true, resumes bit by bit, and does not depend on the mesh."""

import itertools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Linear
from hackmatrix_rl.algorithms.self_play import Search, SearchLoss, SelfPlay
from hackmatrix_rl.algorithms.self_play._buffer import Sample
from hackmatrix_rl.algorithms.self_play._games import Games, begin, play_moves
from hackmatrix_rl.algorithms.self_play._search import Found
from hackmatrix_rl.env import VertexPermutations
from hackmatrix_rl.training import updates_until
from hackmatrix_rl.training.sharding import Blocks

from .building import FIVE, MAKER_BREAKER, network, opinion

pytestmark = pytest.mark.search

SIZES = {
    "game_batch_size": 8,
    "moves_per_update": 4,
    "buffer_size": 8 * 12,
    "training_batch_size": 16,
    "train_steps": 2,
}
STEPS = 8 * 4
GAMES = 24


def trainer(game=FIVE, *, mesh=None, updates=1, seed=0, **changes):
    symmetry = VertexPermutations(game.config.vertices)
    given = {"search": Search(6), "symmetry": symmetry, "learning_rate": 0.01, **SIZES, **changes}
    policy = network(game, seed=seed)
    return hm.Trainer(SelfPlay(game, policy, mesh=mesh, **given), updates_per_dispatch=updates)


def test_the_network_learns_who_wins_and_what_it_can_play():
    """On three vertices without a chance of a triangle, the second player wins every game."""
    learns = trainer(MAKER_BREAKER, train_steps=40, learning_rate=0.03, buffer_size=8 * 24)
    metrics = learns.fit(4 * GAMES, key=jax.random.key(0))
    assert metrics.episode == {"length": 3.0, "first_wins": 0.0, "draws": 0.0}
    game = MAKER_BREAKER
    state = game.start(key=jax.random.key(0))
    for value in (-1.0, 1.0, -1.0):
        _, found, _ = learns.policy(game.observe(state), ())
        assert float(found) == pytest.approx(value, abs=0.1)
        state = game.play(state, jnp.argmax(game.legal(state)), key=jax.random.key(0)).state
    assert metrics.learning["value_loss"] < 0.02


def test_metrics_are_means_over_games_and_steps_and_none_before_a_game_has_ended():
    found = trainer(updates=3)
    found.start(jax.random.key(2))
    metrics = found.dispatch(3)
    assert (metrics.updates, metrics.env_steps, metrics.dispatched) == (3, 3 * STEPS, 3)
    assert metrics.episodes > 0
    assert 5 <= metrics.episode["length"] <= 10
    assert 0 <= metrics.episode["first_wins"] <= 1 - metrics.episode["draws"]
    learning = metrics.learning
    assert 0 < learning["gradient_steps"] <= 6
    assert learning["policy_loss"] >= learning["search_entropy"] > 0
    assert 0 < learning["entropy"] <= np.log(10) + 1e-6
    assert learning["learning_rate"] == pytest.approx(0.01)
    assert learning["gradient_norm"] > 0
    early = trainer()
    early.start(jax.random.key(1))
    metrics = early.dispatch(1)
    assert metrics.episodes == 0
    assert metrics.episode == {}
    assert metrics.learning["gradient_steps"] == 0
    assert "policy_loss" not in metrics.learning
    assert_same(early.policy, network(FIVE))


def test_training_goes_by_the_games_that_ended():
    """It ends with the first update that reaches the goal, however many run in one call."""
    counted = trainer(updates=4, learning_rate=Linear(0.01, 0.0, over=GAMES))
    ended, rates = 0, []
    for metrics in counted.train(GAMES, key=jax.random.key(1)):
        before, ended = ended, ended + metrics.episodes
        assert int(counted.state.games) == ended == metrics.as_dict()["games"]
        assert metrics.dispatched == 1 or before + metrics.dispatched * 8 * 4 <= GAMES
        rates.append((before, metrics.learning["learning_rate"]))
    assert before < GAMES <= ended
    assert updates_until(counted.algorithm, counted.state, ended + 33) == 2
    for before, rate in rates:
        assert rate == pytest.approx(0.01 * (1 - before / GAMES))


def sample(weights, mask, value, valid):
    observation = jnp.zeros((len(value), 2), jnp.float32)
    arrays = [jnp.asarray(each, jnp.float32) for each in (value, valid)]
    return Sample(observation, jnp.asarray(mask), jnp.asarray(weights, jnp.float32), *arrays)


def test_the_loss_is_that_of_plain_python():
    policy = opinion(FIVE, value=0.25)
    logits = np.linspace(-1, 1, 10).astype(np.float32)
    logits[9] = -np.inf  # legal, and neither the network nor the search would play it
    policy = eqx.tree_at(lambda policy: policy.logits, policy, jnp.asarray(logits))
    mask = np.ones((2, 10), bool)
    mask[0, 3:] = False
    weights = np.zeros((2, 10))
    weights[0, :3] = 0.2, 0.3, 0.5
    weights[1, :9] = 1 / 9
    positions = sample(weights, mask, [1.0, -0.5], [1, 1])
    of_policy = eqx.filter_value_and_grad(SearchLoss(vf_coef=2.0), has_aux=True)
    (loss, means), gradient = of_policy(policy, positions)
    assert np.isfinite(gradient.logits).all()
    expected = []
    for row, value in enumerate((1.0, -0.5)):
        chances = np.exp(logits[weights[row] > 0])
        logs = np.log(chances / chances.sum())
        expected.append(2.0 * (0.25 - value) ** 2 - (weights[row, weights[row] > 0] * logs).sum())
    assert float(loss) == pytest.approx(np.mean(expected), rel=1e-5)
    entropy = -(weights[0, :3] * np.log(weights[0, :3])).sum() + np.log(9)
    assert float(means.search_entropy) == pytest.approx(entropy / 2, rel=1e-5)

    # One whose end is unknown adds nothing, and takes nothing from the others.
    for unknown in (-1.0, 9.0):
        positions = sample(weights, mask, [1.0, unknown], [1, 0])
        loss, given = SearchLoss(vf_coef=2.0).prepare(positions)
        assert float(loss(policy, given)[0]) == pytest.approx(expected[0], rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"buffer_size": 8}, "buffer_size 8 is less than the 32 positions of an update"),
        ({"training_batch_size": 12}, "game_batch_size 8 do not fit.*use training_batch_size=8"),
        ({"training_batch_size": 3}, "use training_batch_size=2"),
        ({"train_steps": 0}, "train_steps must be at least 1, not 0"),
        ({"opening": -1}, "opening must be at least 0, not -1"),
        ({"mesh": "data=3"}, "game_batch_size 8 does not divide over the 3 devices"),
        ({"mesh": "data=8", "training_batch_size": 4}, "training_batch_size 4 does not divide"),
        ({"learning_rate": -1.0}, "learning_rate is -1; expected 0 or more"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        trainer(**changes)


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_the_advice_about_sizes_is_not_refused_in_its_turn(devices):
    for games, batch in itertools.product(range(1, 20), range(1, 40)):
        if max(games, batch) % min(games, batch) == 0:
            continue
        blocks = Blocks("games", games, "batch", batch)
        with pytest.raises(ValueError, match="do not fit") as refused:
            blocks.check(environments="games", samples="positions", devices=devices)
        advice = re.findall(r"(\w+)=(\d+)", str(refused.value))
        sizes = {"games": games, "batch": batch} | {name: int(size) for name, size in advice}
        small, large = sorted(sizes.values())
        assert large % small == small % devices == 0, refused.value


def test_a_network_that_does_not_fit_is_refused():
    spec = hm.Batched(FIVE).spec
    with_memory = hm.GRUActorCritic(spec, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"GRUActorCritic with memory.*hm.MLPActorCritic"):
        SelfPlay(FIVE, with_memory)
    with pytest.raises(ValueError, match="Build it from this environment's spec"):
        SelfPlay(FIVE, network(MAKER_BREAKER))
    with pytest.raises(ValueError, match="vf_coef must not be negative"):
        SearchLoss(vf_coef=-1.0)


KEYS = jax.random.split(jax.random.key(0), 64)


@eqx.filter_jit
def begun(opening, keys):
    return jax.vmap(lambda key: begin(FIVE, opening, key))(keys)


def test_a_game_begins_with_up_to_so_many_random_moves():
    states, length = begun(6, KEYS)
    assert set(length.tolist()) == {0, 1, 2, 3, 4, 5, 6}
    np.testing.assert_array_equal(states.moves, length)
    assert not states.over.any()
    assert len({words.tobytes() for words in np.asarray(states.adjacency)}) > 40
    states, length = begun(0, KEYS)
    assert not length.any()
    assert not states.adjacency.any()


class Sides(Search):
    """Plays the first free edge, and tells in its weights who moved second."""

    def __call__(self, game, policy, states, keys, second=None):
        legal = jax.vmap(game.legal)(states)
        side = jnp.broadcast_to(second[:, None], legal.shape).astype(jnp.float32)
        nothing, first_free = jnp.zeros(len(second)), jnp.argmax(legal, axis=1).astype(jnp.int32)
        return Found(
            *(first_free, side, nothing, side, side.astype(jnp.int32)),
            expected=nothing,
            surprise=nothing,
        )


def test_in_training_a_search_is_told_who_moved_second():
    games = Games.start(FIVE, KEYS[:16], opening=3)
    play = eqx.filter_jit(lambda: play_moves(Sides(1), FIVE, opinion(FIVE), games, jnp.int32(0), 9))
    moves = play()[1]
    second = np.asarray(moves.mask).sum(axis=2) % 2  # so many of 10 edges are free
    np.testing.assert_array_equal(moves.weights[..., 0], second)
    assert 0 < second.sum() < second.size


def test_games_that_end_begin_anew_and_the_others_go_on():
    @eqx.filter_jit
    def play(games, number):
        policy = opinion(FIVE)
        return play_moves(Search(2), FIVE, policy, games, number, 12, opening=3)

    games = Games.start(FIVE, KEYS[:16], opening=3)
    after, moves, results = play(games, jax.numpy.int32(0))
    ended, seen = np.asarray(moves.ended), np.asarray(moves.mask).sum(axis=2)
    np.testing.assert_array_equal(seen[:, 0], 10 - np.asarray(games.states.moves))
    goes_on = ~ended[:, :-1]
    np.testing.assert_array_equal(seen[:, 1:][goes_on], seen[:, :-1][goes_on] - 1)
    fresh = seen[:, 1:][~goes_on]
    assert set(fresh.tolist()) == {7, 8, 9, 10}
    np.testing.assert_array_equal(after.length, after.states.moves)
    assert not after.states.over.any()
    assert int(results.games) == ended.sum() > 10
    # The number of edges that were free before the last move tells who made it.
    by_first = seen[ended] % 2 == 0
    reward = np.asarray(moves.reward)[ended]
    first = np.where(by_first, reward, -reward)
    assert (int(results.first_wins), int(results.draws)) == ((first == 1).sum(), (first == 0).sum())
    assert int(results.moves) == (11 - seen[ended]).sum()
    later, other, _ = play(games, jax.numpy.int32(1))
    assert not np.array_equal(other.mask, moves.mask), "each update draws anew"
    assert not eqx.tree_equal(later.states, after.states)
