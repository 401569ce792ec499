"""Damaged checkpoints: found out, or the same bits as were written."""

from pathlib import Path

from etils import epath
from hypothesis import strategies as st

from fuzz.commands import room
from fuzz.stored import PARTS, Damage, arrays, assert_same, damaged_copy, damages, read
from fuzz.worker import Fuzzer
from hackmatrix_rl.runs.checkpoints import whole_checkpoint


def check(each: tuple[list[Damage], bool]) -> None:
    damages, best = each
    place = Path(room()).with_name("damaged")
    folder = damaged_copy(place, damages, within="checkpoints/*/**/*") / "checkpoints"
    notes: list[str] = []
    found = whole_checkpoint(epath.Path(folder), best, notes.append)
    for note in notes:
        assert str(folder) in note, note
        assert "\n" not in note, note
    if found is not None:
        for part in PARTS:
            assert_same(read(found, part), arrays(int(found.name), part))


FUZZER = Fuzzer(
    st.tuples(st.lists(damages, min_size=1, max_size=3), st.booleans()),
    check,
    examples=30,
    shrinks=False,
)
