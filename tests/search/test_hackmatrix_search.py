"""HackMatrix as the model of a tree search: the same rules, and nothing that is not seen."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.positions import position
from games.hackmatrix.recordings import CONFIG, load, rows

import hackmatrix_rl as hm
from hackmatrix_rl.agent import MaskedCategorical, RunningScale
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.games.hackmatrix import Action, RewardConfig, from_arrays, legal_actions, play
from hackmatrix_rl.search import HackMatrixModel

from .hidden import look_alikes
from .test_network_guide import network
from .test_players import OWNER, with_snapshots

pytestmark = pytest.mark.search

ENVIRONMENT = hm.HackMatrix(CONFIG, observation="tactical", reward=RewardConfig(victory=0.5))
NETWORK = eqx.tree_at(
    lambda policy: policy.headless.heads.policy.bias,
    network(environment=ENVIRONMENT),
    replace_fn=lambda bias: bias.at[Action.UNDO].add(1.0),
)
GAMES = 32
KEYS = env_keys(jax.random.key(5), GAMES)


def test_the_model_is_the_game():
    """A legal action in each of some recorded games, by the rules and by the model."""
    before = load("completions").before
    some = np.linspace(0, len(before["player"]) - 1, 256).astype(int)
    games, model = from_arrays(CONFIG, rows(before, some)), HackMatrixModel(ENVIRONMENT)

    def one(game, key):
        draw_key, play_key, unseen_key = jax.random.split(key, 3)
        legal = legal_actions(CONFIG, game).at[Action.UNDO].set(False)
        action = jax.random.categorical(draw_key, jnp.where(legal, 0.0, -1e9)).astype(jnp.int32)
        after, outcome = play(CONFIG, game, action, key=play_key)
        reward = ENVIRONMENT.reward.weigh(outcome.terms)
        step = model.play(game.position, action, key=play_key)
        real = model.observe(game)
        seen = real, ENVIRONMENT.observe(game), model.look(model.imagine(game, key=unseen_key))
        return legal.any(), after.position, outcome, reward, step, seen

    legal, after, outcome, reward, step, (real, remembered, imagined) = jax.device_get(
        jax.jit(jax.vmap(one))(games, env_keys(jax.random.key(1), 256))
    )
    assert legal.sum() > 200
    assert outcome.completed[legal].sum() > 10, "some of them complete a stage"
    same(after, step.state, legal)
    # The compiler may add the terms up in another order in each.
    np.testing.assert_allclose(reward[legal], step.reward[legal], rtol=1e-6, atol=1e-6)
    assert np.array_equal((outcome.died | outcome.won)[legal], step.terminated[legal])
    assert not np.any(step.opponents_turn)
    same(real, remembered, legal)
    assert np.array_equal(real.grid, imagined.grid), "what is drawn anew looks the same"


def same(one, other, chosen):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.array_equal(a[chosen], b[chosen])


@pytest.fixture(scope="module")
def search():
    """Twelve simulations in four trees, for a batch of games."""
    units = {"value_scale": RunningScale(), "gamma": 0.99, "determinisations": 4}
    player = hm.Searcher(NETWORK, ENVIRONMENT, 12, **units)

    @jax.jit
    def of(games):
        def one(game, key):
            mask = legal_actions(CONFIG, game)
            action, _, thought = player.think(game, mask, (), key=key)
            return action, mask, thought

        return jax.vmap(one)(games, KEYS)

    return lambda games: jax.device_get(of(games))


def repeated(found):
    return from_arrays(CONFIG, rows(found, np.zeros(GAMES, np.int32)))


@pytest.mark.nightly
def test_the_search_is_a_function_of_what_is_seen(search):
    (action, _, thought), *others = (search(repeated(each)) for each in look_alikes())
    assert (thought.search_visits.sum(axis=1) == 12).all()
    for other_action, _, other in others:
        assert np.array_equal(action, other_action)
        assert np.array_equal(thought.search_values, other.search_values, equal_nan=True)
        assert np.array_equal(thought.search_visits, other.search_visits)
    found = thought.search_values[~np.isnan(thought.search_values)]
    assert len(set(found.tolist())) > 16, "it draws anew for each key"


def test_it_plays_legal_actions_and_undo_where_the_network_draws_it(search):
    recorded = load("deterministic").before
    some = np.linspace(0, len(recorded["player"]) - 1, GAMES).astype(int)
    old = position((4, 5), turn=9, **OWNER)
    rewinds = with_snapshots(CONFIG, old, now=position((5, 5), exit=(0, 0), stage=2, **OWNER))
    games = jax.tree.map(
        lambda many, one: many.at[:8].set(one), from_arrays(CONFIG, rows(recorded, some)), rewinds
    )
    action, mask, thought = search(games)
    game = np.arange(GAMES)
    assert mask[game, action].all()
    assert (thought.search_visits[:, Action.UNDO] == 0).all()
    assert not (thought.search_visits > 0)[~mask].any()
    np.testing.assert_allclose(thought.probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert not (thought.probabilities > 0)[~mask].any()
    undone = action == Action.UNDO
    assert 0 < undone[:8].sum() < 8
    may = mask[:, Action.UNDO]
    logits = jax.jit(jax.vmap(lambda game: NETWORK(ENVIRONMENT.observe(game), ())[0]))(games)
    priors = MaskedCategorical(logits, jnp.asarray(mask)).probs
    np.testing.assert_allclose(
        thought.probabilities[may, Action.UNDO], priors[may, Action.UNDO], rtol=1e-4
    )
    assert (thought.search_visits[undone] == 0).all()
    searched = ~undone & (mask.sum(axis=1) > 2)
    assert searched.sum() > 10
    assert (thought.search_visits.sum(axis=1)[searched] == 12).all()
    assert (thought.search_visits[game, action][searched] > 0).all()
    assert ((thought.win_probability > 0) & (thought.win_probability < 1)).all()
    assert np.isfinite(thought.value).all()


def test_an_environment_with_another_config_is_refused():
    units = {"value_scale": RunningScale(), "gamma": 0.99}
    player = hm.Searcher(NETWORK, ENVIRONMENT, 4, **units)
    other = dataclasses.replace(
        ENVIRONMENT, config=dataclasses.replace(CONFIG, rewind_across_stages=False)
    )
    run = partial(hm.evaluate, player, episodes=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match="the search plays the game"):
        run(other)
    with pytest.raises(ValueError, match="the search plays HackMatrix, not CartPole"):
        run(hm.CartPole())
