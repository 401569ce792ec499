"""Exact values: against minimax without pruning, and against what is known."""

import equinox as eqx
import jax
import numpy as np
import pytest

from hackmatrix_rl.games.clique import CliqueConfig, from_edges, new_game, play, solve

from .brute_force import Board, minimax

pytestmark = pytest.mark.search

FULL_BOARDS = ["draw", "second-wins"]
VARIANTS = [*((full_board, "form") for full_board in FULL_BOARDS), ("draw", "avoid")]


@pytest.fixture(scope="module", params=FULL_BOARDS)
def six(request):
    return solve(CliqueConfig(6, 3, request.param))


def random_positions(config, count):
    """Edges of both players in the course of random games."""
    random = np.random.default_rng(3)
    for _ in range(count):
        order = random.permutation(config.num_edges)[: random.integers(config.num_edges + 1)]
        yield order[::2].tolist(), order[1::2].tolist()


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
@pytest.mark.parametrize(("vertices", "size", "remember"), [(4, 3, False), (5, 3, True)])
def test_every_value_is_that_of_minimax_without_pruning(vertices, size, remember, variant):
    config = CliqueConfig(vertices, size, *variant)
    solution, value = solve(config), minimax(config, remember)
    board = Board(vertices, size)
    look = eqx.filter_jit(solution.value)
    seen = set()
    for first, second in [([], []), *random_positions(config, 80)]:
        sets = [frozenset(board.edges[edge] for edge in some) for some in (first, second)]
        if (len(first) + len(second)) % 2:
            sets.reverse()
        if board.has_clique(sets[0]):  # the game ended before
            continue
        expected = value(*sets)
        assert int(look(from_edges(config, first, second))) == expected
        seen.add(expected)
    assert seen == ({-1, 0, 1} if config.full_board == "draw" else {-1, 1})


@pytest.mark.parametrize(
    ("vertices", "size", "full_board", "value"),
    [
        (3, 3, "draw", 0),
        (3, 3, "second-wins", -1),
        (4, 3, "draw", 0),
        (4, 3, "second-wins", -1),
        (5, 3, "draw", 1),
        (5, 3, "second-wins", 1),
        (5, 4, "draw", 0),
        (5, 4, "second-wins", -1),
    ],
)
def test_who_wins_an_empty_board(vertices, size, full_board, value):
    config = CliqueConfig(vertices, size, full_board)
    assert int(solve(config).value(new_game(config))) == value


def test_the_second_player_wins_sim():
    """Mead, Rosa and Huang 1974, "The game of Sim: a winning strategy for the second player"."""
    sim = CliqueConfig(6, 3, objective="avoid")
    solution = solve(sim)
    assert int(solution.value(new_game(sim))) == -1
    assert set(solution.action_values(new_game(sim)).tolist()) == {-1}


def test_of_six_vertices_the_first_player_wins_and_no_board_is_drawn(six):
    assert int(six.value(new_game(six.config))) == 1
    codes = reachable(six.config, 2000)
    other = solve(CliqueConfig(6, 3, "second-wins"))
    values = np.asarray(six.values)[codes]
    assert set(values.tolist()) == {-1, 1}
    np.testing.assert_array_equal(values, np.asarray(other.values)[codes])


def reachable(config, count):
    """The codes of positions to which random games came, some of them at their end."""
    board = Board(config.vertices, config.clique_size)
    powers = 3 ** np.arange(config.num_edges)
    codes = []
    for first, second in random_positions(config, count):
        mover = second if len(first) > len(second) else first
        if not board.has_clique({board.edges[edge] for edge in mover}):
            codes.append(powers[first].sum() + 2 * powers[second].sum())
    return np.array(codes, int)


def test_every_move_of_the_perfect_player_keeps_the_value(six):
    config = six.config

    @jax.jit
    def look(state):
        return six.value(state), six.action_values(state), six.best_actions(state)

    step = jax.jit(lambda state, action: play(config, state, action))
    random = np.random.default_rng(5)
    for game in range(6):
        state, before = new_game(config), 1
        while not state.over:
            value, action_values, best = look(state)
            assert int(value) == before
            assert int(action_values.max()) == before
            careful = int(state.moves) % 2 == 0 or game % 2
            moves = np.flatnonzero(best if careful else action_values != -2)
            action = int(random.choice(moves))
            state, outcome = step(state, action)
            before = -int(action_values[action])
        assert int(outcome.winner) == 0, "the first player keeps what it has from the start"
        assert not look(state)[2].any()


def test_a_board_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match=r"vertices=7 is too large to solve.*use 6 vertices"):
        solve(CliqueConfig(7, 3))
