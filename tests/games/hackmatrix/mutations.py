"""Real positions with something changed, and what must hold of each of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from games.hackmatrix.recordings import COLUMNS, CONFIG, POSITION, Arrays, load, rows
from hackmatrix_rl.games.hackmatrix import State, from_arrays, to_arrays
from hackmatrix_rl.games.hackmatrix._state import LONGEST_WAIT
from hackmatrix_rl.games.hackmatrix._validation import LARGEST

TABLES = ("enemies", "transmissions")
NAMES = (*POSITION, *(f"top_{name}" for name in POSITION))

EDGES = (
    *(-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 22, 23, 24, 31, 32, 35, 36, 40, 41, 63, 64),
    *(-128, 127, 128, 255, 256, 10**9, 10**9 + 1, 2**21 - 1, 2**21, 2**31 - 1, 2**31, -(2**31)),
    *(2**32 - 1, 2**32, 2**63 - 1, -(2**63), 2**63, 2**64 - 1),
)
"""Where fields, words and dtypes end."""

SNAPSHOTS = 60
"""Real positions that come with a snapshot; they are the last ones."""

DTYPES = "?bBhHiIlLfdFO"
DTYPES_OF_TEXT_AND_TIME = ("U4", "S4", "M8[s]", "m8[s]")

OTHER_THINGS = (
    *(None, "enemies", b"", {}, {"a": 1}, [], [[1, 2], [3]], object(), 3, 2**70, [[2**70]]),
    *(float("nan"), [[float("inf")]], [["x"]], [None], np.array(0), np.zeros((0, 8), np.int32)),
)


@dataclass(frozen=True)
class Mutation:
    """A change of the array `name`, in words and as a function; `None` takes the array away."""

    name: str
    what: str
    change: Callable[[Any], Any] | None

    def __repr__(self) -> str:
        return f"{self.name}: {self.what}"

    def apply(self, arrays: dict[str, Any]) -> None:
        """Changes `arrays`."""
        if self.change is None:
            arrays.pop(self.name, None)
        elif self.name in arrays:
            arrays[self.name] = self.change(arrays[self.name])


@cache
def real_positions() -> Arrays:
    """Recorded positions: crowded ones, odd ones made by hand, and ones with a snapshot."""
    before = load("observations").before
    busy = np.flatnonzero((before["num_enemies"] >= 2) & (before["num_transmissions"] >= 1))
    parts = [
        rows(before, busy[::40]),
        rows(load("deterministic").before, -1 - np.arange(40)),
        rows(load("new_games").before, np.arange(10)),
    ]
    with_top = rows(load("undo").before | load("undo").top, np.arange(SNAPSHOTS) * 15)
    parts.append({name: with_top[name] for name in POSITION})
    together = {name: np.concatenate([part[name] for part in parts]) for name in POSITION}
    count = len(together["player"])
    for name in POSITION:
        top = with_top[f"top_{name}"]
        together[f"top_{name}"] = np.zeros((count, *top.shape[1:]), top.dtype)
        together[f"top_{name}"][count - len(top) :] = top
    return together


@dataclass(frozen=True)
class Start:
    """A real position: where it is found, and how it is handed in."""

    index: int
    batched: bool
    snapshot: bool

    def arrays(self) -> dict[str, Any]:
        found = real_positions()
        names = NAMES if self.snapshot else POSITION
        count = len(found["player"])
        index = count - 1 - self.index % SNAPSHOTS if self.snapshot else self.index % count
        where = slice(index, index + 1) if self.batched else index
        return {name: np.array(found[name][where]) for name in names}


@dataclass(frozen=True)
class Mutated:
    """A real position and what is changed in it."""

    start: Start
    changes: tuple[Mutation, ...]

    def arrays(self) -> dict[str, Any]:
        arrays = self.start.arrays()
        for each in self.changes:
            each.apply(arrays)
        return arrays


starts = st.builds(Start, st.integers(0, 10_000), st.booleans(), st.booleans())
names = st.sampled_from([*POSITION, *POSITION, *NAMES])
values = st.sampled_from(EDGES) | st.integers(-3, 70)


def _room_for(array: np.ndarray, value: int) -> np.ndarray:
    """The array, in a dtype that the value fits in."""
    for dtype in (array.dtype, np.dtype(np.int64), np.dtype(np.uint64)):
        if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            return array.astype(dtype)
    raise AssertionError(value)


def _set(name: str, place: list[int], depth: int, value: int) -> Mutation:
    """One entry, one row or the whole array becomes a value."""

    def change(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or not array.size:
            return array
        array = _room_for(array, value)
        at = tuple(p % size for p, size in zip(place, array.shape, strict=False))
        array[at[: array.ndim - depth] if depth < array.ndim else ...] = value
        return array

    return Mutation(name, f"{value} at {place} (the last {depth} axes)", change)


def _as(name: str, dtype: str) -> Mutation:
    def change(array: Any) -> Any:
        whole = isinstance(array, np.ndarray) and array.dtype.kind in "iub"
        return array.astype(dtype) if whole else array

    return Mutation(name, f"as {dtype}", change)


RESHAPED: dict[str, Callable[[np.ndarray], Any]] = {
    "without the last column": lambda x: x[..., :-1] if x.ndim else x,
    "with one column more": lambda x: np.concatenate([x, x[..., :1]], -1) if x.ndim else x,
    "flat": lambda x: x.ravel(),
    "with an axis more": lambda x: x[None],
    "with an axis more at the end": lambda x: x[..., None],
    "transposed": lambda x: x.T,
    "twice": lambda x: np.concatenate([x, x]) if x.ndim else x,
    "empty": lambda x: x[:0] if x.ndim else x,
    "its first entry": lambda x: x[0] if x.ndim and len(x) else x,
    "as a list": lambda x: x.tolist(),
    "with NaN": lambda x: np.where(x == 0, np.nan, x),
    "in Fortran's order": lambda x: np.asfortranarray(x),
    "of the other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
}


def _reshaped(name: str, how: str) -> Mutation:
    def change(array: Any) -> Any:
        return RESHAPED[how](array) if isinstance(array, np.ndarray) else array

    return Mutation(name, how, change)


def _with_rows(name: str, count: int, filler: int) -> Mutation:
    """A table of another length; new rows are filled with a value."""

    def change(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.ndim < 2 or array.dtype.kind not in "iu":
            return array
        kept = _room_for(array[..., :count, :], filler)
        new = np.full((*kept.shape[:-2], max(count - kept.shape[-2], 0), kept.shape[-1]), filler)
        return np.concatenate([kept, new.astype(kept.dtype)], axis=-2)

    return Mutation(name, f"{count} rows, new ones of {filler}", change)


def _column(name: str, column: str, value: int) -> Mutation:
    """One column becomes a value."""
    place = COLUMNS[name.removeprefix("top_")].split().index(column)

    def change(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
            return array
        array = _room_for(array, value)
        where = (..., place % array.shape[-1]) if array.ndim and array.shape[-1] else ...
        array[where] = value
        return array

    return Mutation(name, f"{column} {value}", change)


BOUNDLESS = (
    *[("player", each) for each in COLUMNS["player"].split()[3:]],
    *[("game", each) for each in COLUMNS["game"].split()[8:]],
    *[("game", "turn"), ("game", "atk_plus_uses_this_stage"), ("transmissions", "turns_remaining")],
    *[("top_player", each) for each in COLUMNS["player"].split()[3:]],
)
"""What the rules do not bound."""

tables = st.sampled_from([*TABLES, *(f"top_{name}" for name in TABLES)])
places = st.lists(st.integers(0, 40), min_size=3, max_size=3)


def _columns(*values: int) -> st.SearchStrategy[Mutation]:
    return st.builds(
        lambda where, value: _column(*where, value),
        st.sampled_from(BOUNDLESS),
        st.sampled_from(values),
    )


mutations = st.one_of(
    st.builds(_set, names, places, st.sampled_from([0, 0, 0, 1, 2, 3]), values),
    st.builds(_set, tables, places, st.sampled_from([0, 1]), values),
    _columns(LARGEST + 1, 2**31 - 1, 2**32, 2**64 - 1, -1),
    st.builds(_as, names, st.sampled_from([*DTYPES, *DTYPES_OF_TEXT_AND_TIME])),
    st.builds(_reshaped, names, st.sampled_from(sorted(RESHAPED))),
    st.builds(_with_rows, tables, st.sampled_from([0, 1, 5, 39, 41, 60, 200]), values),
    st.builds(
        lambda name, thing: Mutation(name, f"is {thing!r}", lambda _: thing),
        names,
        st.sampled_from(OTHER_THINGS),
    ),
    st.builds(lambda name: Mutation(name, "missing", None), names),
)


extremes = _columns(LARGEST, LARGEST - 1, 10_000, LONGEST_WAIT, 0)
"""Changes that a position may bear."""

mutated_positions = st.builds(
    Mutated,
    starts,
    st.lists(mutations, min_size=1, max_size=4).map(tuple)
    | st.lists(extremes, min_size=1, max_size=8).map(tuple),
)


def accepted(arrays: dict[str, Any]) -> State | None:
    """The game that a position comes to, which comes out as it went in; `None` if refused."""
    try:
        state = from_arrays(CONFIG, arrays)
    except ValueError as error:
        assert_names_a_field(str(error))
        return None
    came, went = meaning(to_arrays(state)), meaning(arrays)
    went["game"][..., 11] = np.minimum(went["game"][..., 11], CONFIG.history)
    for name, array in went.items():
        assert came[name].shape == array.shape, f"{name}: {came[name].shape}, not {array.shape}"
        wrong = np.argwhere(came[name] != array).tolist()
        assert not wrong, f"{name} comes out otherwise at {wrong[:5]}"
    return state


def assert_names_a_field(message: str) -> None:
    """A refusal is one line that names an array and, for a value, its column and its bounds."""
    assert "\n" not in message, message
    named = re.search(r"\b(top_)?(" + "|".join(POSITION) + r")\b", message)
    assert named, message
    if message.startswith("record "):
        assert re.match(r"record \d+: .+ is -?\d+, .*\b(not|more than)\b.*\d", message), message


def meaning(arrays: dict[str, Any]) -> Arrays:
    """All that `to_arrays` gives back, without unused rows and the order of acquisition."""
    result = {name: np.array(arrays[name]).astype(object) for name in POSITION}
    result["owned"] = result["owned"] > 0
    for name in TABLES:
        table, number = result[name], result[f"num_{name}"].astype(int)
        used = np.arange(table.shape[-2]) < number[..., None]
        table = np.where(used[..., None], table, 0)
        most = max(int(number.max(initial=0)), 0)
        result[name] = table[..., :most, :]
    return result


def together(states: list[State], size: int) -> State:
    """Games, single or in batches, as one batch; the last one is repeated."""
    batches = [
        state if state.position.turn.ndim else jax.tree.map(lambda x: x[None], state)
        for state in states
    ]
    index = np.minimum(np.arange(size), sum(len(each.position.turn) for each in batches) - 1)
    return jax.tree.map(lambda *leaf: np.concatenate(leaf)[index], *batches)
