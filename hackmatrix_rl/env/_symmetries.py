"""The eight symmetries of the board: what is seen and done in a turned or mirrored game.

The rules know no directions but for three things. The order of the directions breaks ties. Draws
of cells depend on the numbers of the cells. The programs ROW and COL exchange their parts where
rows become columns. So a turned game evolves like the original, turned, except for ties and draws.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key, PyTree, Shaped, UInt32

from hackmatrix_rl.env._observation import CELL, Number, Sight
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    NUM_ACTIONS,
    NUM_CELLS,
    NUM_DIRECTIONS,
    SIZE,
    STEPS,
    Program,
)


class Changed(eqx.Module):
    """A position in another view, in which its actions have other numbers."""

    observation: PyTree[Array]  #: What is seen.
    was: Int32[Array, " num_actions"]  #: By action, the number that it had before.

    def of_each(self, before: Shaped[Array, " num_actions"]) -> Shaped[Array, " num_actions"]:
        """Values of each action, such as the mask, in the order of the new numbers."""
        return before[self.was]

    def action(self, before: Int32[Array, ""]) -> Int32[Array, ""]:
        """The new number of an action."""
        return jnp.argmax(self.was == before).astype(jnp.int32)


class Symmetry(eqx.Module):
    """Transforms a position without changing the values of its actions.

    Learning from the changed positions, too, multiplies what there is to learn from.
    """

    @abstractmethod
    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
        """The position in another view."""


NUM_SYMMETRIES = 8
"""Symmetry `s` turns the board by `s % 4` quarters counter-clockwise, and then mirrors left and
right if `s` is 4 or more. Symmetry 0 changes nothing."""


@runtime_checkable
class SeenBoard(Protocol):
    """An observation, or a part of one, with the arrays of a `CompactObservation`.

    Further arrays remain unchanged.
    """

    numbers: Any
    programs: Any
    grid: Any


def _cells() -> np.ndarray:
    """By symmetry and cell, the cell that it becomes."""
    rows, cols = np.divmod(np.arange(NUM_CELLS), SIZE)
    turned = []
    for symmetry in range(NUM_SYMMETRIES):
        row, col = rows, cols
        for _ in range(symmetry % 4):
            row, col = col, SIZE - 1 - row
        if symmetry >= 4:
            col = SIZE - 1 - col
        turned.append(row * SIZE + col)
    return np.stack(turned).astype(np.int32)


def _actions() -> np.ndarray:
    """By symmetry and action, the action that it becomes."""
    inside = SIZE + 1  # a cell with four neighbours
    actions = np.tile(np.arange(NUM_ACTIONS, dtype=np.int32), (NUM_SYMMETRIES, 1))
    row, col = FIRST_PROGRAM + Program.ROW, FIRST_PROGRAM + Program.COL
    for symmetry, cells in enumerate(TURNED_CELL):
        steps = [int(cells[inside + step] - cells[inside]) for step in STEPS]
        actions[symmetry, :NUM_DIRECTIONS] = [STEPS.index(step) for step in steps]
        if _EXCHANGES[symmetry]:
            actions[symmetry, [row, col]] = [col, row]
    return actions


_EXCHANGES = np.arange(NUM_SYMMETRIES) % 2 == 1
"""By symmetry, whether rows become columns."""
TURNED_CELL = _cells()
"""By symmetry and cell, the cell that it becomes."""
TURNED_ACTION = _actions()
"""By symmetry and action, the action that it becomes."""
_CELL_FROM = np.argsort(TURNED_CELL, axis=1).astype(np.int32)
_ACTION_FROM = np.argsort(TURNED_ACTION, axis=1).astype(np.int32)


def turn(observation: PyTree[Array], symmetry: Int32[Array, ""]) -> Changed:
    """One position of the turned game.

    Args:
        observation: a `CompactObservation`, or a tree with such parts (see `SeenBoard`). What else
            it holds must not depend on directions: it stays as it is.
        symmetry: from 0 to `NUM_SYMMETRIES` - 1.

    Raises:
        TypeError: the observation has no such part.
    """
    parts = jax.tree.leaves(observation, is_leaf=_is_board)
    if not any(map(_is_board, parts)):
        raise TypeError(
            "only boards of HackMatrix(observation='compact') can be turned, not a "
            f"{type(observation).__name__}"
        )
    turned = jax.tree.map(
        lambda part: _turned(part, symmetry) if _is_board(part) else part,
        observation,
        is_leaf=_is_board,
    )
    return Changed(turned, jnp.asarray(_ACTION_FROM)[symmetry])


@final
class BoardSymmetries(Symmetry):
    """Turns and mirrors the board of HackMatrix: one of the eight symmetries at random."""

    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
        """The position of the turned game.

        Raises:
            TypeError: the observation has no board that can be turned.
        """
        return turn(observation, jax.random.randint(key, (), 0, NUM_SYMMETRIES))


def _is_board(part: Any) -> bool:
    return isinstance(part, SeenBoard)


def _turned(board: Any, symmetry: Int32[Array, ""]) -> Any:
    numbers, programs = board.numbers, board.programs
    exchanges = jnp.asarray(_EXCHANGES)[symmetry]
    cell = numbers[Number.ROW] * SIZE + numbers[Number.COL]
    cell = jnp.asarray(TURNED_CELL)[symmetry, cell]
    numbers = numbers.at[Number.ROW].set(cell // SIZE).at[Number.COL].set(cell % SIZE)
    grid = board.grid[jnp.asarray(_CELL_FROM)[symmetry]]
    return replace(
        board,
        numbers=numbers,
        programs=jnp.where(exchanges, _exchanged_bits(programs), programs),
        grid=jnp.where(exchanges, _exchanged_blocks(grid), grid),
    )


def _exchanged_bits(programs: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """The owned programs with ROW as COL, and COL as ROW."""
    one = jnp.uint32(1)
    differ = ((programs >> Program.ROW) ^ (programs >> Program.COL)) & one
    return programs ^ (differ << Program.ROW) ^ (differ << Program.COL)


def _exchanged_blocks(grid: UInt32[Array, "36"]) -> UInt32[Array, "36"]:
    """The cells with program blocks of ROW as COL, and of COL as ROW."""
    value = CELL["value"].read(grid)
    is_program = CELL["content"].read(grid) == Sight.PROGRAM
    concerned = is_program & ((value == Program.ROW) | (value == Program.COL))
    other = CELL["value"].placed(Program.ROW + Program.COL - value)
    rest = grid & ~jnp.uint32(CELL["value"].mask)
    return jnp.where(concerned, rest | other, grid)
