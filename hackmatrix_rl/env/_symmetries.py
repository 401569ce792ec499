"""Symmetries of observations and actions; the eight symmetries of the HackMatrix board.

The rules commute with a symmetry of the board, with three exceptions. The order of directions
breaks ties. Random draws of cells depend on cell numbers. ROW and COL are exchanged where rows
become columns. The transformation handles the last one, so transformed games differ only in ties
and draws.
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
    NUM_ACTIONS,
    NUM_CELLS,
    NUM_DIRECTIONS,
    SIZE,
    STEPS,
    Action,
    Program,
)


class Changed(eqx.Module):
    """A transformed observation, and the permutation of its actions."""

    observation: PyTree[Array]  #: The transformed observation.
    was: Int32[Array, " num_actions"]  #: The old number of each new action.

    def of_each(self, before: Shaped[Array, " num_actions"]) -> Shaped[Array, " num_actions"]:
        """Permutes values by action, such as the mask, into the new order."""
        return before[self.was]

    def action(self, before: Int32[Array, ""]) -> Int32[Array, ""]:
        """The new number of an action."""
        return jnp.argmax(self.was == before).astype(jnp.int32)


class Symmetry(eqx.Module):
    """A random transformation that preserves the values of actions, for data augmentation."""

    @abstractmethod
    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
        """The transformed observation."""


NUM_SYMMETRIES = 8
"""Symmetry `s` rotates the board by `s % 4` quarter turns counter-clockwise, and then mirrors left
and right if `s >= 4`. Symmetry 0 is the identity."""


@runtime_checkable
class SeenBoard(Protocol):
    """An observation, or a part of one, with the arrays of a `CompactObservation`."""

    numbers: Any
    programs: Any
    grid: Any


def _cells() -> np.ndarray:
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
    inside = SIZE + 1  # a cell with four neighbours
    actions = np.tile(np.arange(NUM_ACTIONS, dtype=np.int32), (NUM_SYMMETRIES, 1))
    for symmetry, cells in enumerate(TURNED_CELL):
        steps = [int(cells[inside + step] - cells[inside]) for step in STEPS]
        actions[symmetry, :NUM_DIRECTIONS] = [STEPS.index(step) for step in steps]
        if _EXCHANGES[symmetry]:
            actions[symmetry, [Action.ROW, Action.COL]] = [Action.COL, Action.ROW]
    return actions


_EXCHANGES = np.arange(NUM_SYMMETRIES) % 2 == 1
"""By symmetry, whether rows become columns."""
TURNED_CELL = _cells()
"""The new cell, by symmetry and old cell."""
TURNED_ACTION = _actions()
"""The new action, by symmetry and old action."""
_CELL_FROM = np.argsort(TURNED_CELL, axis=1).astype(np.int32)
_ACTION_FROM = np.argsort(TURNED_ACTION, axis=1).astype(np.int32)


def turn(observation: PyTree[Array], symmetry: Int32[Array, ""]) -> Changed:
    """Applies a symmetry of the board to one observation.

    Args:
        observation: a `CompactObservation`, or a tree that contains one (see `SeenBoard`). All
            other arrays stay as they are, so they must not depend on directions.
        symmetry: from 0 to `NUM_SYMMETRIES` - 1.

    Raises:
        TypeError: the observation contains no `SeenBoard`.
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
    """Applies one of the eight symmetries of the HackMatrix board, drawn uniformly (see `turn`)."""

    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
        """The transformed observation.

        Raises:
            TypeError: the observation contains no `SeenBoard`.
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
    """The bit set of owned programs with the bits of ROW and COL exchanged."""
    one = jnp.uint32(1)
    differ = ((programs >> Program.ROW) ^ (programs >> Program.COL)) & one
    return programs ^ (differ << Program.ROW) ^ (differ << Program.COL)


def _exchanged_blocks(grid: UInt32[Array, "36"]) -> UInt32[Array, "36"]:
    """The cells with program blocks of ROW and COL exchanged."""
    value = CELL["value"].read(grid)
    is_program = CELL["content"].read(grid) == Sight.PROGRAM
    concerned = is_program & ((value == Program.ROW) | (value == Program.COL))
    other = CELL["value"].placed(Program.ROW + Program.COL - value)
    rest = grid & ~jnp.uint32(CELL["value"].mask)
    return jnp.where(concerned, rest | other, grid)
