"""The geometry of the board, and sets of cells as bits (rules, section 1).

A set of cells is two words of 18 bits, with three rows each. A wave of a breadth-first search is a
few shifts.
"""

from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.system.batching import (
    at_place,
    below,
    has_any,
    left,
    masked,
    nth_bit,
    right,
    settled,
    size_of,
)

SIZE = 6
NUM_CELLS = SIZE * SIZE
CORNERS = (0, SIZE - 1, NUM_CELLS - SIZE, NUM_CELLS - 1)

_WAVES = 3
"""Waves of a search between two checks of its end."""

_WORD = NUM_CELLS // 2
_FULL = (1 << _WORD) - 1
_FIRST_COL = sum(1 << cell for cell in range(0, _WORD, SIZE))
_LAST_COL = _FIRST_COL << (SIZE - 1)


class Direction(IntEnum):
    """The four directions. Their order breaks all ties."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3


NUM_DIRECTIONS = len(Direction)
STEPS = (SIZE, -SIZE, -1, 1)
"""By direction, the number that a step adds to the cell."""


def row_of(cell: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """Row of a cell; row 0 is at the bottom."""
    return (cell * 43) >> 8  # divides by 6, for -1 to 63


def col_of(cell: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """Column of a cell; column 0 is on the left."""
    return cell - row_of(cell) * SIZE


def distance(a: Int32[Array, "*shape"], b: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """Manhattan distance between two cells."""
    return jnp.abs(row_of(a) - row_of(b)) + jnp.abs(col_of(a) - col_of(b))


class CellSet(eqx.Module):
    """A set of cells: {0, 7, 20} -> low = 1 << 0 | 1 << 7, high = 1 << 2."""

    low: UInt32[Array, ""]  #: Cells 0 to 17 (rows 0 to 2), one bit each.
    high: UInt32[Array, ""]  #: Cells 18 to 35 (rows 3 to 5), one bit each.

    @staticmethod
    def empty() -> "CellSet":
        """The empty set."""
        return CellSet(jnp.uint32(0), jnp.uint32(0))

    @staticmethod
    def from_cell(cell: Int32[Array, ""]) -> "CellSet":
        """The set of one cell."""
        return CellSet(masked(at_place(cell), _FULL), at_place(lax.sub(cell, np.int32(_WORD))))

    @staticmethod
    def from_cells(cells: Int32[Array, " n"], present: Bool[Array, " n"]) -> "CellSet":
        """The cells of the present entries."""
        each = jax.vmap(CellSet.from_cell)(cells)
        none = jnp.uint32(0)
        return _union_of(jnp.where(present, each.low, none), jnp.where(present, each.high, none))

    @staticmethod
    def from_array(members: Bool[Array, "36"]) -> "CellSet":
        """The cells whose flag is set."""
        bits = members.astype(jnp.uint32) << _BIT
        return _union_of(bits[:_WORD], bits[_WORD:])

    def to_array(self) -> Bool[Array, "36"]:
        """Whether each cell is a member."""
        words = jnp.where(_IN_LOW, self.low, self.high)
        return ((words >> _BIT) & 1).astype(bool)

    def __or__(self, other: "CellSet") -> "CellSet":
        return CellSet(lax.bitwise_or(self.low, other.low), lax.bitwise_or(self.high, other.high))

    def __and__(self, other: "CellSet") -> "CellSet":
        return CellSet(lax.bitwise_and(self.low, other.low), lax.bitwise_and(self.high, other.high))

    def __sub__(self, other: "CellSet") -> "CellSet":
        return CellSet(
            lax.bitwise_and(self.low, lax.bitwise_not(other.low)),
            lax.bitwise_and(self.high, lax.bitwise_not(other.high)),
        )

    def __invert__(self) -> "CellSet":
        return CellSet(
            masked(lax.bitwise_not(self.low), _FULL), masked(lax.bitwise_not(self.high), _FULL)
        )

    def where(self, condition: Bool[Array, ""]) -> "CellSet":
        """This set if `condition` holds, else the empty set."""
        nothing = np.uint32(0)
        return CellSet(
            jnp.where(condition, self.low, nothing), jnp.where(condition, self.high, nothing)
        )

    def any(self) -> Bool[Array, ""]:
        """Whether there is a member."""
        return has_any(lax.bitwise_or(self.low, self.high))

    def size(self) -> Int32[Array, ""]:
        """Number of members."""
        return size_of(self.low) + size_of(self.high)

    def has(self, cell: Int32[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """Whether each cell is a member. A cell off the board is not."""
        low = self.low >> cell.astype(jnp.uint32)
        high = self.high >> (cell - _WORD).astype(jnp.uint32)
        return (((low | high) & 1) != 0) & (cell >= 0)

    def shifted(self, direction: Direction) -> "CellSet":
        """The members moved by one cell. Those that leave the board are dropped."""
        low, high = self.low, self.high
        if direction == Direction.UP:
            carried = right(low, _WORD - SIZE)
            return CellSet(
                masked(left(low, SIZE), _FULL),
                masked(lax.bitwise_or(left(high, SIZE), carried), _FULL),
            )
        if direction == Direction.DOWN:
            carried = masked(left(high, _WORD - SIZE), _FULL)
            return CellSet(lax.bitwise_or(right(low, SIZE), carried), right(high, SIZE))
        if direction == Direction.LEFT:
            stay = _FULL & ~_FIRST_COL
            return CellSet(right(masked(low, stay), 1), right(masked(high, stay), 1))
        stay = _FULL & ~_LAST_COL
        return CellSet(left(masked(low, stay), 1), left(masked(high, stay), 1))

    def neighbours(self) -> "CellSet":
        """The cells orthogonally adjacent to a member."""
        up, down, left, right = (self.shifted(direction) for direction in Direction)
        return up | down | left | right

    def surroundings(self) -> "CellSet":
        """The cells in the 3 x 3 square around a member."""
        row = self.shifted(Direction.LEFT) | self.shifted(Direction.RIGHT)
        column = row | self
        return row | column.shifted(Direction.UP) | column.shifted(Direction.DOWN)

    def pick(self, index: Int32[Array, ""]) -> Int32[Array, ""]:
        """The member with this index, in order of cells. The set must have such a member."""
        in_low = size_of(self.low)
        later = index >= in_low
        bit = nth_bit(
            jnp.where(later, self.high, self.low), jnp.where(later, index - in_low, index)
        )
        return bit + jnp.where(later, _WORD, 0)

    def ranks(self) -> Int32[Array, "36"]:
        """Number of members before each cell."""
        word = jnp.where(_IN_LOW, self.low, self.high)
        earlier = jnp.where(_IN_LOW, 0, size_of(self.low))
        return earlier + size_of(word & ((np.uint32(1) << _BIT) - np.uint32(1)))

    def choose(self, random: UInt32[Array, ""]) -> Int32[Array, ""]:
        """A uniform member, from 32 random bits. The set must not be empty."""
        return self.pick(below(random, self.size()))


_BIT = np.tile(np.arange(_WORD, dtype=np.uint32), 2)
_IN_LOW = np.arange(NUM_CELLS) < _WORD


def _union_of(low: UInt32[Array, " n"], high: UInt32[Array, " n"]) -> CellSet:
    none = np.uint32(0)
    return CellSet(
        *lax.reduce(
            (low, high),
            (none, none),
            lambda a, b: (lax.bitwise_or(a[0], b[0]), lax.bitwise_or(a[1], b[1])),
            (0,),
        )
    )


def constant_set(cells: tuple[int, ...]) -> CellSet:
    """A set that is known at compile time."""
    low = sum(1 << cell for cell in cells if cell < _WORD)
    high = sum(1 << (cell - _WORD) for cell in cells if cell >= _WORD)
    return CellSet(jnp.uint32(low), jnp.uint32(high))


def corners() -> CellSet:
    return constant_set(CORNERS)


# The 32 cells that are not corners are the bits of one word, in order of cells: 4 of row 0, 12 of
# rows 1 and 2, 12 of rows 3 and 4, 4 of row 5. For example, cell 1 -> bit 0, cell 6 -> bit 4.
_EDGE, _MIDDLE = 0xF, 0xFFF


def inner_bits(cells: CellSet) -> UInt32[Array, ""]:
    """The members that are not corners, one bit each."""
    low = ((cells.low >> 1) & _EDGE) | (((cells.low >> SIZE) & _MIDDLE) << 4)
    high = (cells.high & _MIDDLE) | (((cells.high >> 13) & _EDGE) << 12)
    return low | (high << 16)


def inner_cells(bits: UInt32[Array, ""]) -> CellSet:
    """The inverse of `inner_bits`."""
    low = ((bits & _EDGE) << 1) | (((bits >> 4) & _MIDDLE) << SIZE)
    high = ((bits >> 16) & _MIDDLE) | ((bits >> 28) << 13)
    return CellSet(low, high)


def row_and_column(cell: Int32[Array, ""]) -> tuple[CellSet, CellSet]:
    """The cells of the row and the cells of the column of `cell`."""
    row_mask = jnp.uint32((1 << SIZE) - 1)
    row = row_of(cell)
    low = (row_mask << (row * SIZE).astype(jnp.uint32)) & _FULL
    high = row_mask << (row * SIZE - _WORD).astype(jnp.uint32)
    column = jnp.uint32(_FIRST_COL) << col_of(cell).astype(jnp.uint32)
    return CellSet(low, high), CellSet(column, column)


def step_from(
    cell: Int32[Array, "*shape"], direction: Int32[Array, "*shape"]
) -> tuple[Int32[Array, "*shape"], Int32[Array, "*shape"]]:
    """The number that a step adds to the cell, and the number of steps to the edge of the board."""
    row, col = row_of(cell), col_of(cell)
    vertical = direction <= Direction.DOWN
    forward = (direction == Direction.UP) | (direction == Direction.RIGHT)
    step = jnp.where(vertical, SIZE, 1)
    place = jnp.where(vertical, row, col)
    return jnp.where(forward, step, -step), jnp.where(forward, SIZE - 1 - place, place)


def first_neighbour(cell: Int32[Array, ""], members: CellSet) -> Int32[Array, ""]:
    """The first neighbour in direction order that is a member; `cell` without one."""
    here = CellSet.from_cell(cell)
    found = cell
    for direction in reversed(Direction):
        found = jnp.where((here.shifted(direction) & members).any(), cell + STEPS[direction], found)
    return found


def rays(cell: Int32[Array, ""], stops: CellSet) -> tuple[CellSet, ...]:
    """The cells in each direction from `cell`, up to and including the first member of `stops`."""
    found = []
    for direction in Direction:
        seen, ray = CellSet.empty(), CellSet.from_cell(cell).shifted(direction)
        for _ in range(SIZE - 1):
            seen = seen | ray
            ray = (ray - stops).shifted(direction)
        found.append(seen)
    return tuple(found)


def line_of_sight(cell: Int32[Array, ""], stops: CellSet) -> CellSet:
    """The cells of the row and column of `cell` with no member of `stops` strictly between."""
    up, down, left_, right_ = rays(cell, stops)
    return up | down | left_ | right_


def path_length(
    start: Int32[Array, ""], goal: Int32[Array, ""], blocks: CellSet
) -> Int32[Array, ""]:
    """Length of a shortest orthogonal path around `blocks`; 0 without a path.

    A block on `start` or `goal` does not matter.
    """
    target = CellSet.from_cell(start)
    free = ~blocks | target
    Carry = tuple[CellSet, CellSet, Int32[Array, ""]]

    def spread(carry: Carry) -> Carry:
        before, _, steps = carry
        reached = before
        for _ in range(_WAVES):
            missing = ~(reached & target).any()
            steps = steps + missing.astype(jnp.int32)
            reached = reached | (reached.neighbours() & free)
        return reached, before, steps

    first = (CellSet.from_cell(goal), CellSet.empty(), jnp.int32(0))
    # If `start` is unreachable, further rounds only increase `steps`, which is not used.
    reached, _, steps = settled(
        lambda carry: _grows(carry[0], carry[1], target), spread, first, rounds=_ROUNDS
    )
    return jnp.where((reached & target).any(), steps, 0)


def first_steps(start: Int32[Array, ""], goal: CellSet, free: CellSet) -> CellSet:
    """The first cells of the shortest orthogonal paths from `start` to `goal` over `free` cells.

    `goal` is a set of at most one cell. The result is empty without a path.
    """
    # The search starts at the goal and stops at the wave that first reaches a neighbour of
    # `start`. All neighbours in that wave are equally near.
    adjacent = CellSet.from_cell(start).neighbours()
    return flood(goal, free, until=adjacent) & adjacent


def flood(
    start: CellSet, free: CellSet, *, until: CellSet, barrier: CellSet | None = None
) -> CellSet:
    """The cells that a breadth-first search from `start` over free cells reaches.

    It stops after the wave that first reaches a cell of `until`. It may enter a cell of `barrier`
    but not leave it.
    """

    def spread(carry: tuple[CellSet, CellSet]) -> tuple[CellSet, CellSet]:
        before, _ = carry
        reached = before
        for _ in range(_WAVES):
            source = reached if barrier is None else reached - barrier
            wave = source.neighbours() & free
            reached = reached | wave.where(~(reached & until).any())
        return reached, before

    first = (start, CellSet.empty())
    return settled(lambda carry: _grows(*carry, until), spread, first, rounds=_ROUNDS)[0]


def _grows(reached: CellSet, before: CellSet, until: CellSet) -> Bool[Array, ""]:
    """Whether the last waves reached new cells, and no wave reached `until`."""
    return (reached - before).any() & ~(reached & until).any()


_LONGEST = 23
"""Length of the longest shortest path: the longest path without a shortcut has 24 cells."""
_ROUNDS = -(-_LONGEST // _WAVES)
"""Rounds of the longest search."""
_DIGITS = _LONGEST.bit_length()
_STEPS = ((np.arange(1, _LONGEST + 1)[:, None] >> np.arange(_DIGITS)) & 1) != 0
UNREACHED = 63
"""The distance of an unreachable cell; larger than any other distance."""


def distances(
    start: CellSet, free: CellSet, *, barrier: CellSet | None = None
) -> Int32[Array, "36"]:
    """Length of a shortest orthogonal path from `start` to each cell; `UNREACHED` without a path.

    A path uses `free` cells. Its first cell need not be free. It may enter a cell of `barrier` but
    not leave it.
    """

    def wave(reached: CellSet, _: None) -> tuple[CellSet, CellSet]:
        source = reached if barrier is None else reached - barrier
        reached = reached | (source.neighbours() & free)
        return reached, reached

    # The first wave may leave a barrier.
    first = start | (start.neighbours() & free)
    last, others = lax.scan(wave, first, None, length=_LONGEST - 1)

    def digits(start: Array, first: Array, others: Array) -> UInt32[Array, " digits"]:
        """By binary digit, the cells whose distance has it: distance 5 -> digits 0 and 2."""
        reached = jnp.concatenate([jnp.stack([start, first]), others])
        new = reached[1:] & ~reached[:-1]
        placed = jnp.where(_STEPS, new[:, None], np.uint32(0))
        return lax.reduce(placed, np.uint32(0), lax.bitwise_or, (0,))

    low, high = (
        digits(*words)[:, None]
        for words in ((start.low, first.low, others.low), (start.high, first.high, others.high))
    )
    bits = ((jnp.where(_IN_LOW[None], low, high) >> _BIT[None]) & 1).astype(jnp.int32)
    steps = jnp.sum(bits << np.arange(_DIGITS)[:, None], axis=0, dtype=jnp.int32)
    return jnp.where(last.to_array(), steps, UNREACHED)
