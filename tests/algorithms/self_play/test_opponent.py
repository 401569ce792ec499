"""A network of self-play as a person's opponent: it plays as in matches, and tells why."""

import equinox as eqx
import jax
import numpy as np
import pytest

from hackmatrix_rl.algorithms.self_play import Search, SearchPlayer
from hackmatrix_rl.algorithms.self_play._opponent import opponent_of
from hackmatrix_rl.env import Batched
from hackmatrix_rl.evaluation import thinking

from .building import FIVE, FOUR, MAKER_BREAKER, batch_of, network, opinion

pytestmark = pytest.mark.search

KEY = jax.random.key(0)


@eqx.filter_jit
def thought_of(player, game, state):
    return thinking(player)(state, game.legal(state), player.initial_carry(), KEY)


def test_it_plays_as_the_player_of_matches_whatever_the_noise_of_its_training():
    search = Search(12, max_considered_actions=6, value_scale=0.3, gumbel_scale=1.0)
    policy = network(FIVE, seed=3)
    opponent = opponent_of(FIVE, policy, search)
    assert (opponent.game, opponent.num_simulations) == (FIVE, 12)
    positions = [([], []), ([0], []), ([0, 4], [1, 2]), ([0, 5, 9], [1, 2])]
    states = batch_of(FIVE, *positions)
    keys = jax.random.split(jax.random.key(7), len(positions))
    expected = eqx.filter_jit(SearchPlayer(policy, search).choose)(FIVE, states, keys)
    for number in range(len(positions)):
        state = jax.tree.map(lambda leaf: leaf[number], states)  # noqa: B023
        action, _, thought = thought_of(opponent.player(12), FIVE, state)
        assert action == expected[number]
        assert thought.probabilities.sum() == pytest.approx(1, abs=1e-5)
        assert not thought.probabilities[~np.asarray(FIVE.legal(state))].any()
        assert thought.search_visits.sum() == 12
        assert thought.value == thought.search_values[action]


def test_its_value_is_that_of_the_move_it_makes():
    """The first player has two edges of a triangle, and the third is free."""
    state = jax.tree.map(lambda leaf: leaf[0], batch_of(FOUR, ([0, 1], [2, 5])))
    player = opponent_of(FOUR, opinion(FOUR), Search(16)).player(16)
    action, _, thought = thought_of(player, FOUR, state)
    assert (int(action), float(thought.value)) == (3, 1.0)


def test_without_simulations_the_network_moves_at_once_and_its_value_is_a_result():
    policy = opinion(FOUR, value=7.0, favourite=4)
    player = opponent_of(FOUR, policy, Search(16)).player(0)
    state = FOUR.start(key=KEY)
    action, _, thought = thought_of(player, FOUR, state)
    assert (int(action), float(thought.value)) == (4, 1.0)
    assert thought.search_visits is None


def test_it_plays_only_its_game():
    player = opponent_of(MAKER_BREAKER, opinion(MAKER_BREAKER), Search(2)).player(2)
    assert player.mismatch(Batched(MAKER_BREAKER)) is None
    assert "another game" in player.mismatch(Batched(FOUR))
