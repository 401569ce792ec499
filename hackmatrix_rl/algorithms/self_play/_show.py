"""One game, move by move, without compilation."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._search import Search
from hackmatrix_rl.clique import edges
from hackmatrix_rl.env import CliqueGame

_SHOWN = 3
"""Moves of the search that are shown."""


def show_game(
    search: Search,
    game: CliqueGame,
    policy: ActorCritic,
    *,
    key: Key[Array, ""],
    show: Callable[[str], object] = print,
) -> float:
    """Plays a game of the clique game against itself, and shows each move as it is made.

    Nothing is compiled: breakpoints and `print` work in game, network and search. Returns the
    result for the player who began: 1 won, 0 drawn, -1 lost.
    """
    names = [f"{a}-{b}" for a, b in edges(game.config.vertices)]
    board = [["." for _ in range(game.config.vertices)] for _ in range(game.config.vertices)]
    with jax.disable_jit():
        state = game.start(key=key)
        for number in range(game.num_actions):
            begins = number % 2 == 0
            # mctx works on batches.
            batch = jax.tree.map(lambda leaf: leaf[None], state)
            found = search(game, policy, batch, jax.random.fold_in(key, number)[None])
            action = int(found.action[0])
            a, b = (int(each) for each in edges(game.config.vertices)[action])
            board[a][b] = board[b][a] = "1" if begins else "2"
            show(
                f"\nmove {number + 1}: player {'1' if begins else '2'} colours {names[action]}; "
                f"value {float(found.value[0]):+.2f}; the search: {_best(found.weights[0], names)}"
            )
            show(_drawn(board))
            played = game.play(state, found.action[0], key=key)
            state = played.state
            if bool(played.terminated):
                result = float(played.reward) * (1 if begins else -1)
                show(f"\n{_ended(result, number + 1)}")
                return result
    raise AssertionError("a game ends at the latest when the board is full")


def _best(weights: Any, names: list[str]) -> str:
    """The moves with most weight: `0-1 62%, 2-3 20%`."""
    order = np.argsort(-np.asarray(weights), kind="stable")[:_SHOWN]
    return ", ".join(f"{names[each]} {float(weights[each]):.0%}" for each in order)


def _drawn(board: list[list[str]]) -> str:
    """The colours of the edges, as a table of the vertices."""
    head = "    " + " ".join(f"{vertex:>2}" for vertex in range(len(board)))
    rows = [
        f"{vertex:>3} " + " ".join(f"{cell:>2}" for cell in row) for vertex, row in enumerate(board)
    ]
    return "\n".join([head, *rows])


def _ended(result: float, moves: int) -> str:
    if result == 0:
        return f"A draw after {moves} moves."
    return f"Player {'1' if result > 0 else '2'} wins after {moves} moves."
