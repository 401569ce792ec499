"""The sizes and variants of the clique game. Commands list them without importing JAX."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from hackmatrix_rl.system.errors import ArgumentError, shortened

FullBoard = Literal["draw", "second-wins"]
"""The result of a full board without a clique."""

FULL_BOARDS: tuple[FullBoard, ...] = get_args(FullBoard)

Objective = Literal["form", "avoid"]
"""Whether a clique in a player's own colour wins (`form`) or loses (`avoid`)."""

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True)
class CliqueConfig:
    """The sizes of a clique game, and its variant.

    Two players colour the edges of the complete graph in turn. The game ends with the first
    monochromatic clique of `clique_size` vertices. With the objective `form`, the player with this
    colour wins. With `avoid`, that player loses: the *Ramsey avoidance game*. On 6 vertices with
    triangles it is Sim, which the second player wins under perfect play.

    The variants of `form` differ in the result of a full board without such a clique:

    - `draw`: nobody wins. This is the *strong game* (also Maker-Maker, or strong Ramsey game).
      By strategy stealing, the second player cannot win it under perfect play. The open questions
      are who wins, and how fast; few boards are solved.
    - `second-wins`: the second player wins. This is a *Maker-Breaker game* with an additional
      rule: a clique of the second player (Breaker) wins immediately. In the literature it does
      not end the game, so Maker may win more positions there. The literature studies thresholds:
      the size of the board, or the bias between the players, from which Maker wins.

    With `avoid`, a full board without a clique is a draw.

    A full board without a clique proves that the Ramsey number R(k, k) exceeds `vertices` (see
    `Colouring`). None exists for R(k, k) or more vertices: R(3, 3) = 6, R(4, 4) = 18,
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
        ValueError: a size is out of range or not an integer, or the variant is unknown.
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
        """The number of edges, which is the number of actions and the most moves of a game."""
        return self.vertices * (self.vertices - 1) // 2
