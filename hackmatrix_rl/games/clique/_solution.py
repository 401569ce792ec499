"""The exact value of every position of a small board."""

from itertools import combinations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32

from hackmatrix_rl.games.clique._config import CliqueConfig
from hackmatrix_rl.games.clique._game import (
    FIRST,
    NOBODY,
    SECOND,
    State,
    colours,
    edge_numbers,
    legal_actions,
    mover,
)

MAX_EDGES = 15
"""The table for 6 vertices has 3^15 positions (14 MB), for 7 vertices 729 times as many."""

_WON, _LOST, _NONE = 1, -1, -2


class Solution(eqx.Module):
    """The values of all positions of a clique game under perfect play."""

    config: CliqueConfig = eqx.field(static=True)  #: Sizes and variant of the game.
    #: The value for the player to move, by the code of a position: 1 won, 0 drawn, -1 lost. The
    #: code has a base-3 digit per edge: 0 free, 1 the first player's, 2 the second's. For example,
    #: edges 0 and 2 of the first player and edge 1 of the second: 1 + 2 * 3 + 1 * 9 = 16. Values of
    #: unreachable positions are undefined.
    values: Int8[Array, " codes"]

    def value(self, state: State) -> Int32[Array, ""]:
        """The value of a position for the player to move; after the end, the result."""
        return self.values[self._code(state)].astype(jnp.int32)

    def action_values(self, state: State) -> Int32[Array, " num_edges"]:
        """The value of each move for the player who makes it; -2 for an illegal move."""
        digits = (mover(state) + 1) * jnp.asarray(_powers(self.config))
        legal = legal_actions(self.config, state)
        after = jnp.where(legal, self._code(state) + digits, 0)
        return jnp.where(legal, -self.values[after].astype(jnp.int32), _NONE)

    def best_actions(self, state: State) -> Bool[Array, " num_edges"]:
        """The optimal moves; none after the end."""
        values = self.action_values(state)
        return (values == jnp.max(values)) & (values != _NONE)

    def _code(self, state: State) -> Int32[Array, ""]:
        first, second = colours(self.config, state)
        digits = first.astype(jnp.int32) + 2 * second.astype(jnp.int32)
        return jnp.sum(digits * jnp.asarray(_powers(self.config)))


def solve(config: CliqueConfig) -> Solution:
    """Solves a game of at most 6 vertices by backward induction from the full boards.

    6 vertices take some seconds and 150 MB.

    Raises:
        ValueError: the board is too large.
    """
    if config.num_edges > MAX_EDGES:
        raise ValueError(
            f"vertices={config.vertices} is too large to solve: a table has 3^{config.num_edges} "
            "positions; use 6 vertices or fewer"
        )
    colour = _edge_sets(config.num_edges)
    has_clique = _cliques(config)
    values = np.zeros(colour.shape[1], np.int8)
    after_clique = _LOST if config.objective == "form" else _WON
    for moves, codes in reversed(list(enumerate(_by_moves(config.num_edges, colour)))):
        player = moves % 2
        if moves == config.num_edges:
            winner = NOBODY if config.full_board == "draw" else SECOND
            result = 0 if winner == NOBODY else _WON if winner == player else _LOST
            best = np.full(codes.shape, result, np.int8)
        else:
            best = _best_move(config, values, codes, colour[:, codes], player)
        ended = has_clique[colour[1 - player, codes]]  # by the last move, of the other player
        values[codes] = np.where(ended, np.int8(after_clique), best)
    return Solution(config, jnp.asarray(values))


def _powers(config: CliqueConfig) -> Int32[np.ndarray, " num_edges"]:
    return (3 ** np.arange(config.num_edges)).astype(np.int32)


def _edge_sets(num_edges: int) -> np.ndarray:
    """The edges of each player by code, as bit sets."""
    sets = np.zeros((2, 1), np.uint16)
    for edge in range(num_edges):
        bit = np.uint16(1 << edge)
        nobody, first, second = sets, sets.copy(), sets.copy()
        first[FIRST] |= bit
        second[SECOND] |= bit
        sets = np.concatenate([nobody, first, second], axis=1)
    return sets


def _by_moves(num_edges: int, colour: np.ndarray) -> list[np.ndarray]:
    """The codes of the positions after each number of alternating moves."""
    size = np.array([number.bit_count() for number in range(2**num_edges)], np.int8)
    first, second = size[colour[FIRST]], size[colour[SECOND]]
    return [
        np.flatnonzero((first == (moves + 1) // 2) & (second == moves // 2))
        for moves in range(num_edges + 1)
    ]


def _cliques(config: CliqueConfig) -> np.ndarray:
    """Whether each set of edges contains a clique."""
    sets = np.arange(2**config.num_edges, dtype=np.uint16)
    found = np.zeros(sets.shape, bool)
    numbers = edge_numbers(config.vertices)
    for vertices in combinations(range(config.vertices), config.clique_size):
        bits = sum(1 << int(numbers[pair]) for pair in combinations(vertices, 2))
        found |= (sets & np.uint16(bits)) == bits
    return found


def _best_move(
    config: CliqueConfig, values: np.ndarray, codes: np.ndarray, colour: np.ndarray, player: int
) -> np.ndarray:
    best = np.full(codes.shape, _LOST, np.int8)
    taken = colour[FIRST] | colour[SECOND]
    for edge in range(config.num_edges):
        free = np.flatnonzero((taken >> edge) & 1 == 0)
        after = codes[free] + (player + 1) * 3**edge
        best[free] = np.maximum(best[free], -values[after])
    return best
