"""A search with a network: what it asks the network, and what it refuses."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.positions import daemon, position, virus
from games.hackmatrix.recordings import CONFIG

from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.agent.networks import add_auxiliary_head, build_network
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    TERM_NAMES,
    Action,
    Program,
    RewardConfig,
    from_arrays,
)
from hackmatrix_rl.search import NetworkGuide, ReturnGuide, RolloutSearch
from hackmatrix_rl.system.batching import Chance

pytestmark = pytest.mark.search

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
            return guide.roll_out(game.position, action, wanted, chance=Chance.from_key(key))

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
    policy = eqx.tree_at(
        lambda policy: policy.headless.heads.policy.bias,
        fixed(Action.LEFT, 0.5),
        replace_fn=lambda bias: bias.at[Action.RIGHT].set(-jnp.inf),
    )
    guide = NetworkGuide(ENVIRONMENT, policy)
    opinions = jax.jit(partial(guide.prefer, chance=Chance.from_key(jax.random.key(0))))
    legal = jnp.ones(NUM_ACTIONS, bool)
    here = jax.tree.map(lambda leaf: leaf[0], games()).position
    assert int(jnp.argmax(opinions(here, legal))) == Action.LEFT
    assert np.isfinite(opinions(here, legal)).all()
    legal = legal.at[Action.LEFT].set(False)
    assert int(jnp.argmax(opinions(here, legal))) != Action.LEFT
    with pytest.raises(ValueError, match=r"no head for the victory.*--aux-victory"):
        NetworkGuide(ENVIRONMENT, network(wins=False))
    compact = HackMatrix(CONFIG)
    with pytest.raises(ValueError, match="a search needs a network without memory"):
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


def first(batch):
    return jax.tree.map(lambda leaf: leaf[0], batch).position


GAMMA = 0.5
SCALE = eqx.tree_at(
    lambda scale: (scale.mean, scale.variance), RunningScale(), (jnp.float32(100), jnp.float32(400))
)
"""A value of 2 means 140 in units of reward."""
PAID = RewardConfig(**{name: 0 for name in TERM_NAMES} | {"stage_completion": 1, "victory": 2})


def for_return(action, value, **given):
    """A guide whose network always prefers one action and expects one value."""

    def heads(policy):
        return policy.heads.policy.weight, policy.heads.policy.bias, policy.heads.value

    policy = build_network("cells", ENVIRONMENT.spec, width=16, key=jax.random.key(0))
    weight, bias, head = heads(policy)
    head = jax.tree.map(jnp.zeros_like, head)
    head = eqx.tree_at(lambda head: head.bias, head, jnp.full(1, value, jnp.float32))
    policy = eqx.tree_at(heads, policy, (0 * weight, bias.at[action].set(15.0), head))
    environment = dataclasses.replace(ENVIRONMENT, reward=PAID)
    agent = PolicyAgent(policy, value_scale=SCALE, gamma=GAMMA)
    return ReturnGuide(environment, agent, **given)


def test_a_result_is_the_rewards_on_the_way_and_the_value_at_the_end():
    guide = for_return(Action.UP, 2.0, most_moves=3)

    @jax.jit
    def found(game, wanted):
        chance = Chance.from_key(jax.random.key(0))
        return 20 * guide.roll_out(game, jnp.int32(Action.UP), jnp.bool_(wanted), chance=chance)

    one = first(games())
    assert found(one, True) == pytest.approx(GAMMA**3 * 140)
    assert found(one, False) == pytest.approx(140), "nothing was played"
    third, eighth = (
        first(from_arrays(CONFIG, position((4, 5), exit=(5, 5), stage=stage, score=4)))
        for stage in (3, 8)
    )
    assert found(third, True) == pytest.approx(4 + GAMMA * 140), "the next stage's value"
    assert found(eighth, True) == pytest.approx(100 + 2 * 900), "nothing after a victory"
    hunted = games(hp=1, enemies=[daemon(2, 1), virus(2, 3), virus(1, 2)])
    assert found(first(hunted), True) == 0, "nor after death"


def test_undo_is_played_where_the_network_draws_it():
    game = jax.tree.map(lambda leaf: leaf[0], games(credits=3, programs=[Program.UNDO]))
    mask = jnp.ones(NUM_ACTIONS, bool)
    think = eqx.filter_jit(RolloutSearch.think)  # once for both networks
    for action in Action.UNDO, Action.LEFT:
        player = RolloutSearch(for_return(action, 2.0, most_moves=1), 15)
        found, _, thought = think(player, game, mask, (), key=jax.random.key(0))
        assert found == action
        assert thought.win_probability is None
    assert thought.value == pytest.approx(GAMMA * 140), "in units of reward"
    assert thought.search_values[Action.LEFT] == thought.value


def test_a_guide_for_the_return_needs_its_units():
    policy = for_return(Action.UP, 0.0).policy
    with pytest.raises(ValueError, match="units of the network's value are unknown"):
        ReturnGuide(ENVIRONMENT, PolicyAgent(policy))
