"""Odd archives of NumPy: members that no NumPy writes, and changed bytes."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from fuzz.stored import WAYS

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
DIRECTORY = b"PK\x01\x02"
"""How the description of a member begins, and of the file's last part, which zipfile trusts."""


@dataclass(frozen=True)
class Changes:
    """What is changed in an archive.

    Attributes:
        members: name, header and data of members that are added or replaced.
        compression: of all members.
        patches: places in the last part of the file, and the bytes that are written there.
        damage: a name in `WAYS` and its seed.
    """

    members: tuple[tuple[str, str, bytes], ...] = ()
    compression: int = zipfile.ZIP_DEFLATED
    patches: tuple[tuple[int, bytes], ...] = ()
    damage: tuple[str, int] | None = None


NO_CHANGES = Changes()

kinds = st.sampled_from(["|b1", "<i4", "<f4", "|O", "<f8", ">f2", "<f16", "|V9", "<M8[ns]", "<U9"])


def changes(names: st.SearchStrategy[str], length: int) -> st.SearchStrategy[Changes]:
    """Changes of an archive whose arrays have some names, and one axis of some length, mostly."""
    lengths = st.one_of(st.just(length), st.integers(-2, 2**70))
    headers = st.one_of(
        st.builds(
            "{{'descr': '{}', 'fortran_order': {}, 'shape': ({},), }}".format,
            kinds,
            st.booleans(),
            lengths,
        ),
        st.text(max_size=30),
        st.builds(lambda sign, depth: sign * depth, st.sampled_from("([{'\\"), st.integers(1, 999)),
    )
    data = st.one_of(
        st.binary(max_size=100),
        st.binary(min_size=length, max_size=length),
        st.just(bytes(4 * length)),
    )
    texts = st.text(max_size=12)
    patch = st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=4))
    return st.builds(
        Changes,
        members=st.lists(st.tuples(st.one_of(names, texts), headers, data), max_size=2).map(tuple),
        compression=st.sampled_from([zipfile.ZIP_DEFLATED, *COMPRESSIONS]),
        patches=st.lists(patch, max_size=2).map(tuple),
        damage=st.one_of(
            st.none(), st.none(), st.tuples(st.sampled_from(sorted(WAYS)), st.integers(0, 10_000))
        ),
    )


def change(file: Path, each: Changes) -> None:
    """Changes an archive on disk."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, text, content in each.members:
        begin = text.encode("utf-8", "replace")
        length = len(begin).to_bytes(2, "little")
        named = name.encode("utf-8", "replace").decode().replace("\0", "")
        members[f"{named}.npy"] = b"\x93NUMPY\x01\x00" + length + begin + content
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", each.compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    raw = bytearray(out.getvalue())
    begin_of_last = raw.find(DIRECTORY)
    for place, new in each.patches:
        at = begin_of_last + place % (len(raw) - begin_of_last)
        raw[at : at + len(new)] = new
    file.write_bytes(raw)
    if each.damage is not None:
        how, seed = each.damage
        WAYS[how](file, np.random.default_rng(seed))
