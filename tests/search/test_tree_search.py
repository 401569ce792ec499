"""Tree search on games whose right action is a number, and chance that it must not know."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.search import GameModel, ImaginedStep, SingleGameModel

from .tables import ENDS, NUM_ACTIONS, Opinion, Table

pytestmark = [pytest.mark.search, pytest.mark.smoke]

SEEDS = 200
START = jnp.int32(0)
GAMMA = 0.9
UNITS = RunningScale()
"""As it starts, it is the units of reward."""


def searcher(game, policy, simulations=24, *, trees=1, scale=UNITS, **given):
    """One compiled program serves all tables with the same numbers here."""
    env = game if isinstance(game, GameModel) else hm.Batched(game)
    units = {"value_scale": scale, "gamma": GAMMA}
    return hm.Searcher(policy, env, simulations, determinisations=trees, **units, **given)


@eqx.filter_jit
def _think(player, state, mask, keys):
    def one(key):
        action, _, thought = player.think(state, mask, (), key=key)
        return action, thought

    return jax.vmap(one)(keys)


KEYS = env_keys(jax.random.key(7), SEEDS)


def think(player, *, state=START, illegal=()):
    """What a player chooses and thinks, for each key."""
    mask = jnp.ones(NUM_ACTIONS, bool).at[jnp.asarray(illegal, jnp.int32)].set(False)
    return jax.device_get(_think(player, state, mask, KEYS))


# Action 0 pays 1 at once; action 1 leads to state 1, where action 2 pays 5.
LATER = {(0, 0): (1.0, ENDS), (0, 1): (0.0, 1), (1, 2): (5.0, ENDS)}
GREEDY = Opinion(likes={0: 0, 1: 2}, strength=3.0)


def test_it_finds_what_the_prior_does_not_see():
    action, thought = think(searcher(Table(LATER), GREEDY))
    assert (action == 1).all()
    assert (thought.search_visits.sum(axis=1) == 24).all()
    assert (thought.search_visits[:, 1] == thought.search_visits.max(axis=1)).all()
    np.testing.assert_allclose(thought.search_values[:, 0], 1.0, rtol=1e-6)
    # The mean over the visits: the first saw only the network's 0, most of the others the 5.
    values = thought.search_values[:, 1]
    assert ((values > 2.5) & (values < GAMMA * 5.0)).all()
    np.testing.assert_allclose(thought.value, thought.search_values[:, 1])
    np.testing.assert_allclose(thought.probabilities.sum(axis=1), 1.0, rtol=1e-5)


def test_one_simulation_is_the_prior():
    player = searcher(Table(LATER), Opinion(likes={0: 2}, strength=2.0), 1, gumbel_scale=1.0)
    drawn, thought = think(player)
    shares = np.bincount(drawn, minlength=NUM_ACTIONS) / SEEDS
    np.testing.assert_allclose(shares, jax.nn.softmax(jnp.array([0.0, 0.0, 2.0])), atol=0.1)
    assert (thought.search_visits == (drawn[:, None] == np.arange(NUM_ACTIONS))).all()
    assert (np.isnan(thought.search_values) == (thought.search_visits == 0)).all()
    sure = searcher(Table(LATER), Opinion(likes={0: 2}, strength=50.0), 1, gumbel_scale=1.0)
    assert (think(sure)[0] == 2).all()


def test_illegal_actions_are_visited_neither_at_the_root_nor_below():
    rows = {
        **{(0, 0): (100.0, ENDS), (0, 1): (0.0, 1), (0, 2): (0.5, ENDS)},
        **{(1, 0): (100.0, ENDS), (1, 1): (100.0, ENDS), (1, 2): (0.25, ENDS)},
    }
    game = Table(rows, illegal=((0, 0), (1, 0), (1, 1)))
    wants = Opinion(likes={0: 0, 1: 0}, strength=5.0)
    action, thought = think(searcher(game, wants), illegal=(0,))
    assert (action == 2).all()
    assert (thought.search_visits[:, 0] == 0).all()
    assert (thought.probabilities[:, 0] == 0).all()
    assert (thought.search_values[:, 1] <= GAMMA * 0.25).all()


def test_nothing_comes_after_the_end():
    """The network expects 50 in state 0, which a game that has ended keeps showing."""
    rows = {(0, 0): (1.0, ENDS), (0, 1): (0.0, 1)} | {(1, any_): (3.0, ENDS) for any_ in range(3)}
    action, thought = think(searcher(Table(rows), Opinion({0: 50.0, 1: 2.0})))
    assert (action == 1).all()
    np.testing.assert_allclose(thought.search_values[:, 0], 1.0, rtol=1e-6)
    assert (thought.search_values[:, 1] <= GAMMA * 3.0).all()


def test_values_are_in_the_units_of_the_network_and_a_heavy_end_drowns_nothing():
    """The network says 2 standard deviations, which are 2 * 10 + 5 in units of reward."""
    scale = eqx.tree_at(
        lambda s: (s.mean, s.variance), RunningScale(), (jnp.float32(5), jnp.float32(100))
    )
    says = {1: 2.0, 2: 2.1, 3: -60.0}
    worth = {state: 10 * said + 5 for state, said in says.items()}
    rows = {(0, 0): (1.0, 1), (0, 1): (1.0, 2), (0, 2): (0.0, 3)}
    # Each of the states leads to itself and pays for it, so the network is right.
    rows |= {(n, any_): ((1 - GAMMA) * worth[n], n) for n in says for any_ in range(3)}
    action, thought = think(searcher(Table(rows), Opinion(says), scale=scale))
    expected = [1 + GAMMA * worth[1], 1 + GAMMA * worth[2]]
    np.testing.assert_allclose(thought.search_values[0, :2], expected, rtol=1e-4)
    assert (action == 1).all(), "the disaster of action 2 does not hide a tenth"
    # A unit of value is 15 logits, and 0.3 more for each visit.
    odds = np.log(thought.probabilities[0, 1] / thought.probabilities[0, 0])
    assert odds == pytest.approx(0.03 * GAMMA * (50 + thought.search_visits[0].max()), rel=1e-2)


def test_the_value_of_a_move_without_a_search_is_in_units_of_reward():
    """The network says 2 standard deviations of 10, and the mean is 5."""
    scale = eqx.tree_at(
        lambda s: (s.mean, s.variance), RunningScale(), (jnp.float32(5), jnp.float32(100))
    )
    player = searcher(Table(LATER), Opinion({0: 2.0}), scale=scale)
    _, thought = think(player, illegal=(0, 2))
    np.testing.assert_allclose(thought.value, 25.0, rtol=1e-6)


# Action 0 pays nothing. The others are gambles: a fair coin decides.
GAMBLES = {(0, 0): (0.0, ENDS), (0, 1): (1.0, ENDS, -7.0, ENDS), (0, 2): (-7.0, ENDS, 1.0, ENDS)}


def test_a_gamble_of_negative_mean_is_not_chosen():
    action, thought = think(searcher(Table(GAMBLES), Opinion(), 64, trees=16))
    assert (action == 0).all()
    gambles = thought.search_values[:, 1:]
    assert gambles.mean() == pytest.approx(-3.0, abs=0.2)
    # 16 coins, each counted once: a standard deviation of 8 / 2 / sqrt(16).
    assert gambles.std() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(("simulations", "most"), [(64, 4), (128, 4)])
def test_with_as_many_trees_as_by_default_luck_rarely_makes_a_gamble_look_good(simulations, most):
    """Each of two gambles looks good in one case of 256; 2 seeds of 200 are expected."""
    player = searcher(Table(GAMBLES), Opinion(), simulations, trees=None)
    assert player.search.determinisations == 8
    assert (think(player)[0] > 0).sum() <= most


def test_with_few_trees_a_gamble_is_chosen_exactly_where_all_of_its_coins_fell_well():
    """32 simulations have 4 trees by default, so 4 coins: 24 seeds of 200 are expected."""
    action, thought = think(searcher(Table(GAMBLES), Opinion(), 32, trees=None))
    lucky = (thought.search_values[:, 1:] == 1.0).any(axis=1)
    np.testing.assert_array_equal(action > 0, lucky)
    assert 10 < lucky.sum() < 40


def test_a_tree_where_an_action_has_luck_counts_no_more_than_another():
    """A gamble of mean 0: a tree visits it more often where it wins."""
    fair = {(0, 0): (0.0, ENDS), (0, 1): (1.0, ENDS, -1.0, ENDS), (0, 2): (-9.0, ENDS)}
    _, thought = think(searcher(Table(fair), Opinion(), 64, trees=16))
    assert abs(thought.search_values[:, 1].mean()) < 0.08, "four standard errors are 0.07"


def test_the_choice_does_not_know_the_coin():
    """The best of two bets depends on the coin that the key of the step decides."""
    game = Table({(0, 1): (1.0, ENDS, -1.0, ENDS), (0, 2): (-1.0, ENDS, 1.0, ENDS)}, ((0, 0),))
    player = searcher(game, Opinion(), 4, trees=1)
    found = hm.evaluate(player, hm.Batched(game), episodes=1000, key=jax.random.key(3))
    won = (found.values["return"] > 0).mean()
    assert abs(won - 0.5) < 0.064, "four standard deviations of 1000 coins"


class Cards(Table):
    """A hidden card, 1 or 2, is the action that pays; the player sees only that there is one."""

    def start(self, *, key):
        return jax.random.randint(key, (), 1, 3, jnp.int32)

    def observe(self, state):
        return super().observe(jnp.int32(0))

    def legal(self, state):
        return jnp.ones(NUM_ACTIONS, bool)

    def play(self, state, action, *, key):
        return hm.Played(state, jnp.where(action == state, 1.0, 0.0), jnp.bool_(True))


def test_what_is_unseen_is_drawn_anew_for_each_tree():
    game = Cards({})
    model = SingleGameModel(game, lambda state, key: game.start(key=key))
    player = searcher(model, Opinion(), 48, trees=16)
    (action, thought), (other, other_thought) = (
        think(player, state=jnp.int32(card)) for card in (1, 2)
    )
    assert np.array_equal(action, other), "it is the same function of what is visible"
    assert np.array_equal(thought.search_values, other_thought.search_values)
    assert thought.search_values[:, 1:].mean() == pytest.approx(0.5, abs=0.05)
    assert len(set(thought.search_values[:, 1].tolist())) > 5


class Nim(GameModel):
    """Take 1, 2 or 3 of a heap; who takes the last one wins 1. Heaps of 4 and 8 are lost."""

    def mismatch(self, environment):
        return None

    def observe(self, game):
        return game

    def searched(self, mask):
        return mask

    def imagine(self, game, *, key):
        return game

    def look(self, state):
        return state

    def legal(self, state):
        return jnp.arange(1, 4) <= state

    def play(self, state, action, *, key):
        left = state - action - 1
        return ImaginedStep(left, jnp.where(left == 0, 1.0, 0.0), left <= 0, jnp.bool_(True))


class Blank(hm.ActorCritic):
    def __call__(self, observation, carry):
        return jnp.zeros(3, jnp.float32), jnp.float32(0), carry


@pytest.mark.parametrize(("heap", "right"), [(3, 2), (5, 0), (6, 1), (7, 2)])
def test_the_opponents_gain_is_a_loss(heap, right):
    action, thought = think(searcher(Nim(), Blank(), 120), state=jnp.int32(heap))
    assert (action == right).all()
    wrong = np.arange(3) != right
    assert (thought.search_values[0, wrong] < 0.2).all()


def test_a_game_alone_and_in_a_batch_are_the_same():
    player = searcher(Table(GAMBLES), Opinion(), 64, trees=16)
    _, many = think(player)
    mask = jnp.ones(NUM_ACTIONS, bool)
    alone = eqx.filter_jit(lambda key: player.think(START, mask, (), key=key)[2])(KEYS[3])
    np.testing.assert_array_equal(many.search_visits[3], alone.search_visits)
    np.testing.assert_allclose(many.search_values[3], alone.search_values, rtol=1e-5)


def test_where_there_is_nothing_to_choose_nothing_is_searched():
    action, thought = think(searcher(Table(LATER), GREEDY), illegal=(0, 2))
    assert (action == 1).all()
    assert (thought.search_visits == 0).all()
    assert np.isnan(thought.search_values).all()
    assert (thought.probabilities == [0, 1, 0]).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"simulations": 0}, "num_simulations must be at least 1, not 0"),
        ({"trees": 5, "simulations": 4}, "determinisations is 5, but there are only 4"),
        ({"considered": 0}, "considered must be at least 1"),
    ],
)
def test_numbers_that_cannot_work_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        searcher(Table(LATER), GREEDY, **given)


def test_players_that_cannot_search_are_refused():
    env = hm.Batched(Table(LATER))
    with pytest.raises(ValueError, match=r"units of the network's value are unknown.*\.agent"):
        hm.Searcher(GREEDY, env)
    pole = hm.CartPole()
    known = {"value_scale": UNITS, "gamma": GAMMA}
    with pytest.raises(ValueError, match="CartPole has no model to search in"):
        hm.Searcher(GREEDY, pole, **known)
    memory = hm.build_network("gru", pole.spec, key=jax.random.key(0))
    with pytest.raises(ValueError, match="a search needs a network without memory"):
        hm.Searcher(memory, env, **known)
    other = hm.build_network("mlp", pole.spec, key=jax.random.key(0))
    with pytest.raises(ValueError, match="MLPActorCritic"):
        hm.Searcher(other, env, **known)
    player = hm.Searcher(GREEDY, env, **known)
    for other in (pole, hm.Batched(Table(GAMBLES))):
        with pytest.raises(ValueError, match="the search plays Table"):
            hm.evaluate(player, other, episodes=1, key=jax.random.key(0))
