"""The rules against a plain implementation, on games that are drawn at random."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.games.clique import (
    FIRST,
    NOBODY,
    SECOND,
    CliqueConfig,
    colours,
    completes_clique,
    edge_numbers,
    edges,
    find_clique,
    from_edges,
    legal_actions,
    mover,
    new_game,
    play,
)

from .brute_force import Board, result_of

pytestmark = pytest.mark.search

SIZES = [(3, 3), (5, 4), (6, 3), (7, 4), (8, 5)]
VARIANTS = [("draw", "form"), ("second-wins", "form"), ("draw", "avoid")]


@eqx.filter_jit
def playout(config, key, games):
    """Random games to the full board; the outcome and the legal moves of each move."""
    orders = jax.vmap(lambda key: jax.random.permutation(key, config.num_edges))(
        jax.random.split(key, games)
    )

    def one(order):
        def move(state, action):
            after, outcome = play(config, state, action)
            return after, (outcome, legal_actions(config, state))

        return jax.lax.scan(move, new_game(config), order)[1]

    return orders, jax.vmap(one)(orders)


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_random_games_end_as_brute_force_says(size, variant):
    config = CliqueConfig(*size, *variant)
    orders, (outcomes, legal) = jax.device_get(playout(config, jax.random.key(1), 24))
    assert size != (6, 3) or len(set(outcomes.over.sum(axis=1).tolist())) > 3
    for game, order in enumerate(orders):
        winner, over = NOBODY, False
        for turn, action in enumerate(order):
            was_over = over
            expected = np.ones(config.num_edges, bool)
            expected[order[:turn]] = False
            assert np.array_equal(legal[game, turn], expected & (not was_over))
            assert outcomes.legal[game, turn] == (not was_over)
            if not was_over:
                winner, over = result_of(config, order[: turn + 1])
            assert (outcomes.winner[game, turn], outcomes.over[game, turn]) == (winner, over)
            reward = 0 if winner == NOBODY or was_over else (1 if winner == turn % 2 else -1)
            assert outcomes.reward[game, turn] == reward, action
        assert over


@pytest.mark.parametrize("clique_size", [3, 4, 5, 6])
@pytest.mark.parametrize("vertices", [8, 14, 18])
def test_a_clique_is_found_through_any_edge_of_it_and_nowhere_else(vertices, clique_size):
    """One planted clique among random edges, and the same with one edge of it missing."""
    config = CliqueConfig(vertices, clique_size)
    board = Board(vertices, clique_size)
    random = np.random.default_rng(vertices * clique_size)
    find = jax.jit(lambda *given: completes_clique(config, *given))
    found = []
    for trial in range(30):
        density = (0.2, 0.4, 0.6)[trial % 3] + (0.1 if clique_size == 6 else 0.0)
        mine = set(np.flatnonzero(random.random(config.num_edges) < density).tolist())
        planted = random.permutation(vertices)[:clique_size]
        numbers = edge_numbers(vertices)[np.ix_(planted, planted)]
        mine |= set(numbers[np.triu_indices(clique_size, 1)].tolist())
        if trial % 2:
            mine -= {int(numbers[0, 1])}
        through = sorted(mine)[int(random.integers(len(mine)))]
        named = {board.edges[edge] for edge in mine}
        expected = any(
            board.edges[through] in clique and clique <= named for clique in board.cliques
        )
        words = from_edges(config, sorted(mine), ()).adjacency[FIRST]
        found.append(bool(find(words, *map(jnp.int32, board.edges[through]))))
        assert found[-1] == expected
    assert len(set(found)) == 2 or clique_size == 3


def test_the_largest_board_is_played_to_its_end():
    """153 edges are more than a 64-bit word holds; on 18 vertices nobody avoids a clique of 4."""
    config = CliqueConfig(18, 4, objective="avoid")
    orders, (outcomes, _) = jax.device_get(playout(config, jax.random.key(2), 4))
    for order, over, winner in zip(orders, outcomes.over, outcomes.winner, strict=True):
        moves = int(np.argmax(over)) + 1
        sides = [order[player:moves:2].tolist() for player in range(2)]
        loser = (moves - 1) % 2
        assert winner[moves - 1] == 1 - loser
        assert find_clique(18, sides[loser], 4) is not None
        assert find_clique(18, sides[loser][:-1], 4) is None
        assert find_clique(18, sides[1 - loser], 4) is None
        assert max(order[:moves]) > 64


def test_edges_are_numbered_in_order_and_both_ways():
    assert edges(4).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    numbers = edge_numbers(5)
    assert (numbers == numbers.T).all()
    assert (np.diag(numbers) == -1).all()
    assert [numbers[one, other] for one, other in edges(5)] == list(range(10))


def test_players_move_in_turn_and_colour_their_own_edges():
    config = CliqueConfig(5, 3)
    state = new_game(config)
    for turn, edge in enumerate([3, 7, 0]):
        assert int(mover(state)) == turn % 2
        state, _ = play(config, state, edge)
    assert np.flatnonzero(colours(config, state)[FIRST]).tolist() == [0, 3]
    assert np.flatnonzero(colours(config, state)[SECOND]).tolist() == [7]
    assert eqx.tree_equal(state, from_edges(config, [0, 3], [7]))


@pytest.mark.parametrize("action", [0, -1, 10, 1000, 2**31, -(2**40)])
def test_an_illegal_move_changes_nothing(action):
    config = CliqueConfig(5, 3)
    state, _ = play(config, new_game(config), 0)
    after, outcome = play(config, state, action)
    assert not outcome.legal
    assert (int(outcome.reward), bool(outcome.over)) == (0, False)
    assert eqx.tree_equal(after, state)


@pytest.mark.parametrize("action", [1.0, True, jnp.zeros(2, jnp.int32)])
def test_a_move_is_one_whole_number(action):
    config = CliqueConfig(5, 3)
    with pytest.raises(TypeError):
        play(config, new_game(config), action)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((2, 3), "vertices must be a whole number from 3 to 18, not 2"),
        ((19, 3), "vertices must be a whole number from 3 to 18, not 19"),
        ((6, 2), "clique_size must be a whole number from 3 to 6, not 2"),
        ((7, 7), "clique_size must be a whole number from 3 to 6, not 7"),
        ((6, True), "clique_size must be a whole number from 3 to 6, not True"),
        ((4, 5), "clique_size 5 is more than the 4 vertices"),
        (
            (6, 3, "second-wins", "avoid"),
            "full_board second-wins does not go with objective avoid.*use full_board=draw",
        ),
    ],
)
def test_a_game_that_does_not_fit_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        CliqueConfig(*given)


@pytest.mark.parametrize(
    ("given", "name"),
    [((6.0, 3), "vertices"), ((6, 3, "win"), "full_board"), ((6, 3, "draw", "lose"), "objective")],
)
def test_a_game_of_other_types_is_refused(given, name):
    with pytest.raises((ValueError, jaxtyping.TypeCheckError), match=name):
        CliqueConfig(*given)


GAME = CliqueGame(CliqueConfig(5, 3))
KEY = jax.random.key(0)


def test_it_is_an_environment():
    hm.check_environment(hm.Batched(GAME))


def test_each_player_sees_the_board_as_the_other_would_with_swapped_colours():
    one = GAME.observe(from_edges(GAME.config, [0, 5], [7, 8]))
    swapped = GAME.observe(from_edges(GAME.config, [7, 8], [0, 5]))
    assert np.flatnonzero(one.own).tolist() == np.flatnonzero(swapped.other).tolist() == [0, 5]
    assert np.flatnonzero(one.other).tolist() == np.flatnonzero(swapped.own).tolist() == [7, 8]
    assert one.first
    second = GAME.observe(from_edges(GAME.config, [0, 5, 9], [7, 8]))
    assert np.flatnonzero(second.own).tolist() == [7, 8]
    assert not second.first


def test_who_wins_is_rewarded_and_who_loses_by_their_own_move_is_not():
    win = GAME.play(from_edges(GAME.config, [0, 1], [7, 8]), jnp.int32(4), key=KEY)
    assert (float(win.reward), bool(win.terminated)) == (1.0, True)
    breaker = CliqueGame(CliqueConfig(3, 3, "second-wins"))
    last = breaker.play(from_edges(breaker.config, [0], [1]), jnp.int32(2), key=KEY)
    assert (float(last.reward), bool(last.terminated)) == (-1.0, True)
    drawn = CliqueGame(CliqueConfig(3, 3))
    last = drawn.play(from_edges(drawn.config, [0], [1]), jnp.int32(2), key=KEY)
    assert (float(last.reward), bool(last.terminated)) == (0.0, True)


def test_an_illegal_move_ends_the_episode_without_reward():
    state = from_edges(GAME.config, [0], [])
    played = GAME.play(state, jnp.int32(0), key=KEY)
    assert (float(played.reward), bool(played.terminated)) == (0.0, True)
    assert (legal_actions(GAME.config, played.state) == GAME.legal(state)).all()
