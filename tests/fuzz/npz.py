"""Forged files of weights (`.npz`): refused in one line, or a network with finite weights."""

import zipfile
from functools import cache
from pathlib import Path

import jax
import numpy as np
from hypothesis import strategies as st
from runs.checkpoints.theirs import theirs

from fuzz.archives import Changes, change, changes
from fuzz.commands import room
from fuzz.worker import Fuzzer
from hackmatrix_rl.runs.checkpoints import load_npz
from hackmatrix_rl.system.errors import ConfigError

WIDTH = 2
NAMES = tuple(theirs(width=WIDTH))


@cache
def written() -> bytes:
    """A good file."""
    file = Path(room()).with_name("good.npz")
    np.savez(file, **theirs(width=WIDTH))
    return file.read_bytes()


def check(each: Changes) -> None:
    file = Path(room()).with_name("forged.npz")
    file.unlink(missing_ok=True)
    file.write_bytes(written())
    change(file, each)
    try:
        network = load_npz(file)
    except ConfigError as error:
        said = str(error)
        assert said.startswith(f"{file}: "), said
        assert said.isprintable(), ascii(said)
        assert len(said) < 700, said
        return
    finally:
        if file.is_dir():
            file.rmdir()
    for leaf in jax.tree.leaves(network):
        if isinstance(leaf, jax.Array):
            assert np.isfinite(leaf).all()


def member(header: str, data: bytes = b"") -> Changes:
    return Changes(members=((NAMES[0], header, data),))


FLOATS = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
FUZZER = Fuzzer(
    changes(st.sampled_from(NAMES), WIDTH),
    check,
    examples=60,
    found=(
        member("(" * 999),
        member("{'"),
        member(""),
        member(FLOATS % ("<f4", "(0, 4611686018427387904, 4611686018427387904)")),
        member(FLOATS % ("<f4", "(2,"), bytes(8)),
        Changes(members=(("\u202e", "", b""),)),
        Changes(compression=zipfile.ZIP_LZMA, damage=("flipped", 3)),
        Changes(compression=zipfile.ZIP_BZIP2, damage=("overwritten", 1)),
        Changes(patches=((42, b"\xff\xff\xff\x7f"),)),  # the member begins after the end
        Changes(patches=((8, b"\0\x08"), (46, b"\xff\xfe"))),  # a name that is no UTF-8
        Changes(patches=((24, b"\xff\xff\xff\xff"),)),  # its size, in another member's
    ),
)
