"""A search with a network: what it asks the network, and what it refuses."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from game.positions import daemon, position, virus
from game.recordings import CONFIG

from hackmatrix_rl.agent.networks import add_auxiliary_head, build_network
from hackmatrix_rl.batching import Chance
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.game import NUM_ACTIONS, Action, Program, from_arrays
from hackmatrix_rl.search import NetworkGuide

ENVIRONMENT = HackMatrix(CONFIG, observation="tactical")
GAMES = 16


def network(*, wins=True, name="cells", environment=ENVIRONMENT):
    headless = build_network(name, environment.spec, width=16, key=jax.random.key(0))
    return add_auxiliary_head(headless, environment.spec, wins=wins, key=jax.random.key(1))


def fixed(action, chance):
    """The network with heads that always prefer one action and expect one chance of victory."""

    def said(policy):
        head, won = policy.headless.heads.policy, policy.auxiliary.won
        return head.weight, head.bias, won.weight, won.bias

    policy = network()
    weight, bias, win_weight, _ = said(policy)
    odds = jnp.log(jnp.array([chance / (1 - chance)], jnp.float32))
    chosen = (0 * weight, bias.at[action].set(50.0), 0 * win_weight, odds)
    return eqx.tree_at(said, policy, chosen)


def games(**given):
    one = from_arrays(CONFIG, position((2, 2), exit=(5, 5), **given))
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, GAMES, axis=0), one)


@pytest.fixture(scope="module")
def roll_out():
    """Imagined games of a network that walks up and expects to win 3 games in 10."""
    guide = NetworkGuide(ENVIRONMENT, fixed(Action.UP, 0.3), most_moves=5)

    @jax.jit
    def run(batch, action, wanted):
        def one(game, key):
            return guide.roll_out(game.position, action, wanted, chance=Chance.of(key))

        return jax.vmap(one)(batch, jax.random.split(jax.random.key(0), GAMES))

    return lambda batch, action, wanted=True: np.asarray(run(batch, jnp.int32(action), wanted))


def test_an_imagined_game_ends_with_the_heads_opinion_discounted_by_its_moves(roll_out):
    # Up, up, up, then there is no way up: the likeliest legal action is another one.
    found = roll_out(games(), Action.UP)
    np.testing.assert_allclose(found, 0.3 * 0.997**4, rtol=1e-3)
    np.testing.assert_allclose(roll_out(games(), Action.UP, False), 0.3, rtol=1e-4)


def test_the_end_of_the_last_stage_is_a_victory_and_death_is_nothing(roll_out):
    beside = from_arrays(CONFIG, position((4, 5), exit=(5, 5), stage=8))
    beside = jax.tree.map(lambda leaf: jnp.repeat(leaf, GAMES, axis=0), beside)
    np.testing.assert_array_equal(roll_out(beside, Action.UP), 1.0)
    early = eqx.tree_at(lambda g: g.position.stage, beside, jnp.full(GAMES, 3, jnp.int32))
    np.testing.assert_allclose(roll_out(early, Action.UP), 0.3, rtol=1e-4)
    hunted = games(hp=1, enemies=[daemon(2, 1), virus(2, 3), virus(1, 2)])
    assert (roll_out(hunted, Action.UP) == 0).all()


def test_the_likeliest_legal_action_is_preferred_and_unfit_networks_are_refused():
    guide = NetworkGuide(ENVIRONMENT, fixed(Action.LEFT, 0.5))
    opinions = jax.jit(partial(guide.prefer, chance=Chance.of(jax.random.key(0))))
    legal = jnp.ones(NUM_ACTIONS, bool)
    here = jax.tree.map(lambda leaf: leaf[0], games()).position
    assert int(jnp.argmax(opinions(here, legal))) == Action.LEFT
    legal = legal.at[Action.LEFT].set(False)
    assert int(jnp.argmax(opinions(here, legal))) != Action.LEFT
    with pytest.raises(ValueError, match=r"no head for the victory.*--aux-victory"):
        NetworkGuide(ENVIRONMENT, network(wins=False))
    compact = HackMatrix(CONFIG)
    with pytest.raises(ValueError, match="a network with a memory cannot search"):
        NetworkGuide(compact, network(name="gru", environment=compact))


def test_the_network_reads_positions_as_if_the_last_turns_were_like_them():
    started = games(turn=0, hp=2, credits=7, programs=[Program.UNDO])
    moved = eqx.tree_at(lambda g: g.position.turn, started, jnp.full(GAMES, 4, jnp.int32))

    def memory(environment, batch):
        seen = jax.vmap(environment.observe_position)(batch.position)
        return np.asarray(seen.memory[0, :7]).tolist()

    like_now = [2, 7, 1, 2, 7, 1, 2]
    assert memory(ENVIRONMENT, started) == memory(ENVIRONMENT, moved) == like_now
    config = dataclasses.replace(CONFIG, rewind_across_stages=False)
    without = HackMatrix(config, observation="tactical")
    assert memory(without, moved) == like_now
    assert memory(without, started) == [0] * 7
