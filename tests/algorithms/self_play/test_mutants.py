"""The tests of search and self-play notice rules, trees and targets that are slightly wrong.

Each mutant replaces one function of the package; then a named test must fail. The tests compile
little, and anew for each mutant: what they keep compiled is replaced, too.
"""

import equinox as eqx
import jax.numpy as jnp
import pytest
from search import test_tree_search

from hackmatrix_rl.algorithms.self_play import SearchLoss
from hackmatrix_rl.algorithms.self_play import _buffer as buffers
from hackmatrix_rl.algorithms.self_play import _search as searches
from hackmatrix_rl.algorithms.self_play._games import Results
from hackmatrix_rl.games.clique import _game as rules
from hackmatrix_rl.search import SingleGameModel, TreeSearch

from . import test_buffer, test_search, test_self_play

pytestmark = [pytest.mark.search, pytest.mark.nightly]


def friends(play):
    """Inside of a tree, no move is the opponent's: what they win counts as won."""
    return lambda self, *given, **more: eqx.tree_at(
        lambda step: step.opponents_turn, play(self, *given, **more), jnp.bool_(False)
    )


def same_sign(outcomes_of):
    """Every move of a game has the result of who made the last one."""

    def mutant(reward, ended):
        found = outcomes_of(reward, ended)
        won = jnp.any(ended & (reward > 0), axis=1, keepdims=True)
        return found._replace(value=jnp.where(won, jnp.abs(found.value), found.value))

    return mutant


def other_winner(from_moves):
    """The results are those of the second player."""
    return lambda length, reward, ended: from_moves(length + 1, reward, ended)


def other_value(loss):
    """The network learns how the game ended for the other player."""
    return lambda self, policy, sample: loss(
        self, policy, eqx.tree_at(lambda sample: sample.value, sample, -sample.value)
    )


def shares_of_visits(to_learn):
    """The policy to learn is how often each move was tried, as in AlphaZero."""
    return lambda trees, root, values, visits: jnp.divide(
        visits.astype(jnp.float32), jnp.sum(visits).astype(jnp.float32)
    )


def ten_times(to_learn):
    """The values weigh ten times as much."""

    def mutant(trees, root, values, visits):
        heavier = 10 * trees.improvement.weight
        improvement = type(trees.improvement)(trees.improvement.scale, weight=heavier)
        trees = eqx.tree_at(lambda trees: trees.improvement, trees, improvement)
        return to_learn(trees, root, values, visits)

    return mutant


def with_noise(to_learn):
    """The noise of the root is learned."""

    def mutant(trees, root, *found):
        logits = root.prior.logits + root.noise
        return to_learn(trees, eqx.tree_at(lambda r: r.prior.logits, root, logits), *found)

    return mutant


def anything_goes(legal):
    """Inside of a tree, every move is legal."""
    return lambda self, state: jnp.ones_like(legal(self, state))


def no_clique(completes_clique):
    """Nobody ever has a clique."""
    return lambda *given: jnp.bool_(False)


def smaller_clique(completes_clique):
    """A clique is one vertex smaller than the rules say."""
    return lambda config, adjacency, one, other: jnp.any(adjacency[one] & ~(1 << other) != 0)


def by_visits(combine):
    """The mean over all visits: a tree where an action has luck counts more."""

    def mutant(self, grown, prior, noise):
        share = grown.visits / jnp.maximum(jnp.sum(grown.visits, axis=0, keepdims=True), 1)
        weighed = grown.values * share.astype(jnp.float32) * self.determinisations
        return combine(self, eqx.tree_at(lambda g: g.values, grown, weighed), prior, noise)

    return mutant


def wins_in_one():
    test_search.test_a_win_in_one_is_found_with_16_simulations(0)


def outcomes():
    test_buffer.test_values_go_back_from_the_end_of_each_game_with_the_sign_in_turns(0)


VALUES = test_search.test_the_value_is_that_of_the_player_to_move
WEIGHTS = test_search.test_the_weights_are_the_prior_and_the_values_without_the_noise
MASK_OF_TWO = test_search.test_no_illegal_move_is_visited_inside_of_the_tree
MASK_OF_ONE = test_tree_search.test_illegal_actions_are_visited_neither_at_the_root_nor_below
LUCK = test_tree_search.test_a_tree_where_an_action_has_luck_counts_no_more_than_another
RESULTS = test_buffer.test_results_are_counted_for_the_player_who_began
LOSS = test_self_play.test_the_loss_is_that_of_plain_python

MUTANTS = {
    "the opponent's gain is one's own": (SingleGameModel, "play", friends, VALUES),
    "values keep their sign": (buffers, "outcomes_of", same_sign, outcomes),
    "the other player won": (Results, "from_moves", other_winner, RESULTS),
    "the other player's value": (SearchLoss, "__call__", other_value, LOSS),
    "visits as target": (searches, "to_learn", shares_of_visits, WEIGHTS),
    "a target of ten times the values": (searches, "to_learn", ten_times, WEIGHTS),
    "a target with noise": (searches, "to_learn", with_noise, WEIGHTS),
    "no mask inside, two players": (SingleGameModel, "legal", anything_goes, MASK_OF_TWO),
    "no mask inside, one player": (SingleGameModel, "legal", anything_goes, MASK_OF_ONE),
    "nobody wins": (rules, "completes_clique", no_clique, wins_in_one),
    "a smaller clique wins": (rules, "completes_clique", smaller_clique, wins_in_one),
    "luck counts more": (TreeSearch, "_combine", by_visits, LUCK),
}
for owner, name, *_ in MUTANTS.values():
    getattr(owner, name)  # a renamed function fails here, in each session, not only at night
COMPILED = ((test_search, "searched"), (test_tree_search, "_think"))
"""What the tests keep compiled."""


@pytest.fixture(autouse=True)
def compiled_anew(monkeypatch):
    for module, name in COMPILED:
        function = getattr(module, name).__wrapped__
        monkeypatch.setattr(module, name, eqx.filter_jit(lambda *given, f=function: f(*given)))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(monkeypatch, name):
    holder, function, mutate, test = MUTANTS[name]
    monkeypatch.setattr(holder, function, mutate(getattr(holder, function)))
    if hasattr(test_buffer, function):
        monkeypatch.setattr(test_buffer, function, getattr(holder, function))
    with pytest.raises(AssertionError):
        test()
