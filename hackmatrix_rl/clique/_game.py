"""The clique game: its sizes, its edges, its state, and a move."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, UInt32

from hackmatrix_rl.batching import at_place, has_any, select
from hackmatrix_rl.errors import ArgumentError, as_action, shortened

FullBoard = Literal["draw", "second-wins"]
"""What a full board without a clique means."""

FULL_BOARDS: tuple[FullBoard, ...] = get_args(FullBoard)

Objective = Literal["form", "avoid"]
"""What a player wants with a clique in their own colour."""

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True)
class CliqueConfig:
    """The sizes of a clique game, and its variant.

    Two players colour the edges of the complete graph in turn. The game ends with the first clique
    of `clique_size` vertices whose edges all have one colour. With the objective `form`, its owner
    wins. With `avoid`, its owner loses: the *Ramsey avoidance game*. On 6 vertices with triangles
    it is Sim, which the second player wins under perfect play.

    The variants of `form` differ in what a full board without such a clique means:

    - `draw`: nobody wins. This is the *strong game* (also Maker-Maker, or strong Ramsey game).
      By strategy stealing, the second player cannot win it under perfect play. The literature
      asks with it who wins, and how fast; few boards are solved.
    - `second-wins`: the second player wins, who only has to stop the first: a *Maker-Breaker game*,
      with one rule more. Here a clique of the second player ends the game at once. In the
      literature's Maker-Breaker game it means nothing, so Maker may win some more positions there.
      The literature uses this kind for thresholds: how large a board must be, or how unequal the
      players, for Maker to win.

    With `avoid`, such a board is a draw.

    A full board without a clique shows that the Ramsey number R(k, k) is more than `vertices` (see
    `Colouring`). A board of R(k, k) vertices or more has none: R(3, 3) = 6, R(4, 4) = 18,
    43 <= R(5, 5) <= 46.

    Source: Erdős and Selfridge 1973, "On a combinatorial game"; Beck 2008, "Combinatorial games:
    tic-tac-toe theory"; Hefetz, Krivelevich, Stojaković and Szabó 2014, "Positional games".
    Avoidance: Simmons 1969, "The game of SIM"; Mead, Rosa and Huang 1974, "The game of Sim: a
    winning strategy for the second player". Ramsey numbers: Greenwood and Gleason 1955,
    "Combinatorial relations and chromatic graphs"; Exoo 1989, "A lower bound for R(5, 5)";
    Angeltveit and McKay 2024, "R(5,5) <= 46".

    Attributes:
        vertices: number of vertices of the complete graph, 3 to 18.
        clique_size: number of vertices of the clique that ends the game, 3 to 6; at most
            `vertices`.
        full_board: `draw` or `second-wins`; with `avoid` only `draw`.
        objective: `form` or `avoid`.

    Raises:
        ValueError: a size is out of range or no integer, or there is no such variant.
    """

    SMALLEST: ClassVar[int] = 3
    MAX_VERTICES: ClassVar[int] = 18
    MAX_CLIQUE: ClassVar[int] = 6

    vertices: int
    clique_size: int
    full_board: FullBoard = "draw"
    objective: Objective = "form"

    def __post_init__(self) -> None:
        for name, most in (("vertices", self.MAX_VERTICES), ("clique_size", self.MAX_CLIQUE)):
            size = getattr(self, name)
            is_whole = isinstance(size, int) and not isinstance(size, bool)
            if not is_whole or not self.SMALLEST <= size <= most:
                raise ValueError(
                    f"{name} must be a whole number from {self.SMALLEST} to {most}, not "
                    f"{shortened(repr(size))}"
                )
        if self.clique_size > self.vertices:
            raise ArgumentError(
                f"{{clique_size}} is more than the {self.vertices} vertices of the board; use "
                f"{{clique_size:={self.vertices}}} or less, or more vertices",
                clique_size=self.clique_size,
            )
        if self.full_board not in FULL_BOARDS:
            raise ValueError(
                f"full_board must be one of {', '.join(FULL_BOARDS)}, not {self.full_board!r}"
            )
        if self.objective not in OBJECTIVES:
            raise ValueError(
                f"objective must be one of {', '.join(OBJECTIVES)}, not {self.objective!r}"
            )
        if self.objective == "avoid" and self.full_board != "draw":
            raise ArgumentError(
                "{full_board} does not go with {objective}, in which a full board without a clique "
                "is a draw; use {full_board:=draw}",
                full_board=self.full_board,
                objective=self.objective,
            )

    @property
    def num_edges(self) -> int:
        """Number of edges of the board. It is the number of actions, and the most moves."""
        return self.vertices * (self.vertices - 1) // 2


@lru_cache
def edges(vertices: int) -> Int32[np.ndarray, "num_edges 2"]:
    """The two vertices of each edge, the smaller one first; edges in lexicographic order."""
    return np.stack(np.triu_indices(vertices, 1), axis=1).astype(np.int32)


@lru_cache
def edge_numbers(vertices: int) -> Int32[np.ndarray, "vertices vertices"]:
    """The number of the edge between two vertices; -1 on the diagonal."""
    numbers = np.full((vertices, vertices), -1, np.int32)
    for number, (one, other) in enumerate(edges(vertices)):
        numbers[one, other] = numbers[other, one] = number
    return numbers


FIRST, SECOND, NOBODY = 0, 1, -1
"""The players by number, and who has won while nobody has."""


class State(eqx.Module):
    """One clique game."""

    #: For each player and vertex one word. Its bit v is set if the player has coloured the edge
    #: from the vertex to v.
    adjacency: UInt32[Array, "*batch 2 vertices"]
    moves: Int32[Array, "*batch"]  #: Number of edges that are coloured.
    over: Bool[Array, "*batch"]  #: Whether the game is over.
    winner: Int32[Array, "*batch"]  #: `FIRST`, `SECOND`, or `NOBODY` in a draw and before the end.


def mover(state: State) -> Int32[Array, "*batch"]:
    """The player whose move it is: `FIRST` or `SECOND`."""
    return state.moves % 2


def colours(config: CliqueConfig, state: State) -> Bool[Array, "2 num_edges"]:
    """The edges that each player has coloured."""
    ends = edges(config.vertices)
    words = state.adjacency[:, ends[:, 0]]
    return ((words >> ends[None, :, 1].astype(np.uint32)) & 1) != 0


def new_game(config: CliqueConfig) -> State:
    """The empty board. The first player moves."""
    return State(
        adjacency=jnp.zeros((2, config.vertices), jnp.uint32),
        moves=jnp.int32(0),
        over=jnp.bool_(False),
        winner=jnp.int32(NOBODY),
    )


def from_edges(config: CliqueConfig, first: Iterable[int], second: Iterable[int]) -> State:
    """The position with these edges of both players, before the end of the game.

    It checks no rule.
    """
    words = np.zeros((2, config.vertices), np.uint32)
    moves = 0
    for player, numbers in enumerate((first, second)):
        for one, other in edges(config.vertices)[list(numbers)]:
            words[player, one] |= np.uint32(1 << int(other))
            words[player, other] |= np.uint32(1 << int(one))
            moves += 1
    return replace(new_game(config), adjacency=jnp.asarray(words), moves=jnp.int32(moves))


class Outcome(eqx.Module):
    """The results of a move, besides the new state."""

    #: Of the player who moved: 1 if they have won with this move, -1 if they have lost, else 0.
    reward: Int32[Array, "*batch"]
    legal: Bool[Array, "*batch"]  #: Whether the move was legal. If not, nothing changed.
    over: Bool[Array, "*batch"]  #: Whether the game is over after the move.
    winner: Int32[Array, "*batch"]  #: `FIRST`, `SECOND`, or `NOBODY`.


def legal_actions(config: CliqueConfig, state: State) -> Bool[Array, " num_edges"]:
    """The edges without a colour; none if the game is over."""
    first, second = colours(config, state)
    return ~(first | second | state.over)


def play(config: CliqueConfig, state: State, action: Int[Array, ""] | int) -> tuple[State, Outcome]:
    """Colours one edge of one game. It works under `jax.vmap` and `jax.jit`.

    The action is the number of an edge (see `edges`). An edge that has a colour, any other number
    and any move after the end are illegal: the state stays as it is, and `legal` is false.

    Raises:
        TypeError: the action is not one whole number.
    """
    action = as_action(action, "the number of an edge, such as 0")
    numbers = np.arange(config.num_edges, dtype=np.int32)
    legal = jnp.any(legal_actions(config, state) & (numbers == action))
    one, other = jnp.asarray(edges(config.vertices))[jnp.clip(action, 0, config.num_edges - 1)]

    player = mover(state)
    coloured = state.adjacency | _edge(config, player, one, other)
    completed = completes_clique(config, coloured[player], one, other)
    moves = state.moves + 1
    full = moves == config.num_edges
    unbeaten = SECOND if config.full_board == "second-wins" else NOBODY
    by_clique = player if config.objective == "form" else 1 - player
    winner = jnp.where(completed, by_clique, jnp.where(full, jnp.int32(unbeaten), NOBODY))
    after = select(legal, State(coloured, moves, completed | full, winner), state)
    won = jnp.where(winner == player, 1, jnp.where(winner == NOBODY, 0, -1))
    return after, Outcome(
        reward=jnp.where(legal, won, 0).astype(jnp.int32),
        legal=legal,
        over=after.over,
        winner=after.winner,
    )


def completes_clique(
    config: CliqueConfig,
    adjacency: UInt32[Array, " vertices"],
    one: Int32[Array, ""],
    other: Int32[Array, ""],
) -> Bool[Array, ""]:
    """Whether the edge from `one` to `other` is in a clique of its colour, whose edges hold it.

    Only common neighbours of its two ends can be in such a clique.
    """
    common = adjacency[one] & adjacency[other]
    return _has_clique(adjacency, common, config.clique_size - 2)


def _has_clique(
    adjacency: UInt32[Array, " vertices"], among: UInt32[Array, "*shape"], size: int
) -> Bool[Array, "*shape"]:
    """Whether a set of vertices holds a clique."""
    if size == 1:
        return has_any(among)
    vertices = jnp.arange(adjacency.shape[0], dtype=jnp.int32)
    ones = tuple(1 for _ in among.shape)
    inside = has_any(among[..., None] & at_place(vertices).reshape(*ones, -1))
    rest = among[..., None] & adjacency.reshape(*ones, -1)
    return jnp.any(inside & _has_clique(adjacency, rest, size - 1), axis=-1)


def _edge(
    config: CliqueConfig, player: Int32[Array, ""], one: Int32[Array, ""], other: Int32[Array, ""]
) -> UInt32[Array, "2 vertices"]:
    """The words of a board with only this edge, in the colour of a player."""
    vertices = np.arange(config.vertices, dtype=np.int32)
    nothing = jnp.uint32(0)
    bits = jnp.where(vertices == one, at_place(other), nothing)
    bits |= jnp.where(vertices == other, at_place(one), nothing)
    theirs = np.arange(2, dtype=np.int32)[:, None] == player
    return jnp.where(theirs, bits[None], nothing)
