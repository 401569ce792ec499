"""The board's geometry, and sets of cells as bits (rules, section 1).

A set of cells is two words of 18 bits, three rows each. One wave of a search over the whole
board is then a handful of shifts, for any number of games at once.
"""

from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, UInt32

SIZE = 6
NUM_CELLS = SIZE * SIZE
CORNERS = (0, SIZE - 1, NUM_CELLS - SIZE, NUM_CELLS - 1)

_WAVES = 6
"""Steps of a search between two looks at whether it is over: most paths are shorter."""

_WORD = NUM_CELLS // 2
_FULL = (1 << _WORD) - 1
_FIRST_COL = sum(1 << cell for cell in range(0, _WORD, SIZE))
_LAST_COL = _FIRST_COL << (SIZE - 1)


class Direction(IntEnum):
    """The four directions in their fixed order, which breaks all ties."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3


NUM_DIRECTIONS = len(Direction)
ROW_STEP = np.array([1, -1, 0, 0], np.int8)
COL_STEP = np.array([0, 0, -1, 1], np.int8)


def row_of(cell: Int8[Array, "*shape"]) -> Int8[Array, "*shape"]:
    """Row of a cell; row 0 is the bottom."""
    return jax.lax.div(cell, jnp.full_like(cell, SIZE))


def col_of(cell: Int8[Array, "*shape"]) -> Int8[Array, "*shape"]:
    """Column of a cell; column 0 is the left."""
    return cell - row_of(cell) * SIZE


def distance(a: Int8[Array, "*shape"], b: Int8[Array, "*shape"]) -> Int8[Array, "*shape"]:
    """Manhattan distance of two cells."""
    return jnp.abs(row_of(a) - row_of(b)) + jnp.abs(col_of(a) - col_of(b))


class CellSet(eqx.Module):
    """A set of cells.

    Attributes:
        low: cells 0 to 17 (rows 0 to 2), one bit each.
        high: cells 18 to 35 (rows 3 to 5).
    """

    low: UInt32[Array, ""]
    high: UInt32[Array, ""]

    @staticmethod
    def empty() -> "CellSet":
        """No cell."""
        return CellSet(jnp.uint32(0), jnp.uint32(0))

    @staticmethod
    def of(cell: Int8[Array, ""]) -> "CellSet":
        """One cell."""
        # A shift by 32 or more (a negative amount counts as huge) gives 0 in XLA.
        one = jnp.uint32(1)
        low = (one << cell.astype(jnp.uint32)) & _FULL
        high = one << (cell - _WORD).astype(jnp.uint32)
        return CellSet(low, high)

    @staticmethod
    def of_cells(cells: Int8[Array, " n"], present: Bool[Array, " n"]) -> "CellSet":
        """The cells of all entries that are present."""
        each = jax.vmap(CellSet.of)(cells)
        none = jnp.uint32(0)
        return CellSet(
            _union(jnp.where(present, each.low, none)), _union(jnp.where(present, each.high, none))
        )

    @staticmethod
    def from_array(members: Bool[Array, "36"]) -> "CellSet":
        """The cells where `members` holds."""
        bits = members.astype(jnp.uint32) << _BIT
        return CellSet(_union(bits[:_WORD]), _union(bits[_WORD:]))

    def to_array(self) -> Bool[Array, "36"]:
        """Whether each cell is a member."""
        words = jnp.where(_IN_LOW, self.low, self.high)
        return ((words >> _BIT) & 1).astype(bool)

    def __or__(self, other: "CellSet") -> "CellSet":
        return CellSet(self.low | other.low, self.high | other.high)

    def __and__(self, other: "CellSet") -> "CellSet":
        return CellSet(self.low & other.low, self.high & other.high)

    def __sub__(self, other: "CellSet") -> "CellSet":
        return CellSet(self.low & ~other.low, self.high & ~other.high)

    def __invert__(self) -> "CellSet":
        return CellSet(~self.low & _FULL, ~self.high & _FULL)

    def where(self, condition: Bool[Array, ""]) -> "CellSet":
        """This set if `condition` holds, else no cell."""
        keep = jnp.where(condition, jnp.uint32(_FULL), jnp.uint32(0))
        return CellSet(self.low & keep, self.high & keep)

    def any(self) -> Bool[Array, ""]:
        """Whether there is a member."""
        return (self.low | self.high) != 0

    def size(self) -> Int32[Array, ""]:
        """Number of members."""
        count = jax.lax.population_count(self.low) + jax.lax.population_count(self.high)
        return count.astype(jnp.int32)

    def has(self, cell: Int8[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """Whether `cell` (or each of several) is a member; a cell off the board is not."""
        low = self.low >> cell.astype(jnp.uint32)
        high = self.high >> (cell - _WORD).astype(jnp.uint32)
        return (((low | high) & 1) != 0) & (cell >= 0)

    def shifted(self, direction: Direction) -> "CellSet":
        """Every member moved one cell; what leaves the board is gone."""
        low, high = self.low, self.high
        if direction == Direction.UP:
            return CellSet(
                (low << SIZE) & _FULL, ((high << SIZE) | (low >> (_WORD - SIZE))) & _FULL
            )
        if direction == Direction.DOWN:
            return CellSet((low >> SIZE) | ((high << (_WORD - SIZE)) & _FULL), high >> SIZE)
        if direction == Direction.LEFT:
            stay = _FULL & ~_FIRST_COL
            return CellSet((low & stay) >> 1, (high & stay) >> 1)
        stay = _FULL & ~_LAST_COL
        return CellSet((low & stay) << 1, (high & stay) << 1)

    def neighbours(self) -> "CellSet":
        """All cells orthogonally adjacent to a member."""
        up, down, left, right = (self.shifted(direction) for direction in Direction)
        return up | down | left | right

    def surroundings(self) -> "CellSet":
        """All cells that touch a member, by a side or a corner."""
        row = self.shifted(Direction.LEFT) | self.shifted(Direction.RIGHT)
        column = row | self
        return row | column.shifted(Direction.UP) | column.shifted(Direction.DOWN)

    def pick(self, index: Int32[Array, ""]) -> Int8[Array, ""]:
        """The member with that index, counted from cell 0; the set must have so many."""
        in_low = jax.lax.population_count(self.low).astype(jnp.int32)
        later = index >= in_low
        word = jnp.where(later, self.high, self.low)
        left = jnp.where(later, index - in_low, index)
        base = jnp.uint32(0)
        for width in (16, 8, 4, 2, 1):  # is it among the next `width` bits, or behind them?
            here = jax.lax.population_count((word >> base) & ((1 << width) - 1)).astype(jnp.int32)
            behind = left >= here
            left = jnp.where(behind, left - here, left)
            base = jnp.where(behind, base + width, base)
        return base.astype(jnp.int8) + jnp.where(later, jnp.int8(_WORD), jnp.int8(0))


_BIT = np.tile(np.arange(_WORD, dtype=np.uint32), 2)
_IN_LOW = np.arange(NUM_CELLS) < _WORD


def _union(words: UInt32[Array, " n"]) -> UInt32[Array, ""]:
    return jax.lax.reduce(words, np.uint32(0), jax.lax.bitwise_or, (0,))


def constant_set(cells: tuple[int, ...]) -> CellSet:
    """A set that is known when the program is compiled."""
    low = sum(1 << cell for cell in cells if cell < _WORD)
    high = sum(1 << (cell - _WORD) for cell in cells if cell >= _WORD)
    return CellSet(jnp.uint32(low), jnp.uint32(high))


def corners() -> CellSet:
    """The four corners."""
    return constant_set(CORNERS)


def row_and_column(cell: Int8[Array, ""]) -> tuple[CellSet, CellSet]:
    """All cells of the row, and all cells of the column, of `cell`."""
    row_mask = jnp.uint32((1 << SIZE) - 1)
    row = row_of(cell)
    low = (row_mask << (row * SIZE).astype(jnp.uint32)) & _FULL
    high = row_mask << (row * SIZE - _WORD).astype(jnp.uint32)
    column = jnp.uint32(_FIRST_COL) << col_of(cell).astype(jnp.uint32)
    return CellSet(low, high), CellSet(column, column)


def step_from(
    cell: Int8[Array, ""], direction: Int8[Array, "*shape"]
) -> tuple[Int8[Array, "*shape"], Bool[Array, "*shape"]]:
    """The neighbouring cell in a direction, and whether it is on the board."""
    row = row_of(cell) + jnp.asarray(ROW_STEP)[direction]
    col = col_of(cell) + jnp.asarray(COL_STEP)[direction]
    inside = (row >= 0) & (row < SIZE) & (col >= 0) & (col < SIZE)
    return row * SIZE + col, inside


def line_of_sight(cell: Int8[Array, ""], stops: CellSet) -> CellSet:
    """Cells of the row and column of `cell` with no member of `stops` strictly between."""
    seen = CellSet.empty()
    for direction in Direction:
        ray = CellSet.of(cell).shifted(direction)
        for _ in range(SIZE - 1):
            seen = seen | ray
            ray = (ray - stops).shifted(direction)
    return seen


def path_length(start: Int8[Array, ""], goal: Int8[Array, ""], blocks: CellSet) -> Int32[Array, ""]:
    """Steps of a shortest orthogonal path around `blocks`; 0 if there is none.

    A block under `start` or `goal` does not matter.
    """
    target = CellSet.of(start)
    _, steps, found = flood(CellSet.of(goal), ~blocks | target, until=target)
    return jnp.where(found, steps, 0)


def first_step(
    start: Int8[Array, ""], goal: CellSet, free: CellSet
) -> tuple[Int8[Array, ""], Bool[Array, ""]]:
    """First step of a shortest orthogonal path from `start` into `goal`.

    Args:
        start: where the path begins; need not be free.
        goal: where it ends: a set of at most one cell, empty if it may not be entered.
        free: the cells that may be walked on.

    Returns:
        The direction (the first in direction order among shortest paths) and whether there
        is a path of at least one step.
    """
    # The search grows from the goal and halts at the wave that first touches a neighbour of
    # `start`: the members among the neighbours are then all equally near.
    reached, _, found = flood(goal, free, until=CellSet.of(start).neighbours())
    cells, inside = step_from(start, jnp.arange(NUM_DIRECTIONS, dtype=jnp.int8))
    leads = reached.has(cells) & inside
    return jnp.argmax(leads).astype(jnp.int8), found


def flood(
    start: CellSet, free: CellSet, *, until: CellSet, barrier: CellSet | None = None
) -> tuple[CellSet, Int32[Array, ""], Bool[Array, ""]]:
    """Spreads from `start` over free cells, a step at a time, up to the first touch of `until`.

    Args:
        start: where it begins.
        free: the cells that it may enter.
        until: the cells that end it.
        barrier: cells that may be entered but not left; none by default.

    Returns:
        The cells reached, the number of steps, and whether a cell of `until` was reached.
    """
    Carry = tuple[CellSet, Int32[Array, ""], Bool[Array, ""], Bool[Array, ""]]

    def spread(carry: Carry) -> Carry:
        reached, steps, _, _ = carry
        before = reached
        for _ in range(_WAVES):
            found = (reached & until).any()
            source = reached if barrier is None else reached - barrier
            reached = reached | (source.neighbours() & free).where(~found)
            steps = steps + (~found).astype(jnp.int32)
        found = (reached & until).any()
        return reached, steps, found, ~found & (reached - before).any()

    found = (start & until).any()
    first = (start, jnp.int32(0), found, ~found & start.any())
    reached, steps, found, _ = jax.lax.while_loop(lambda carry: carry[3], spread, first)
    return reached, steps, found
