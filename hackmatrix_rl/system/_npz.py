"""A reader of untrusted `.npz` archives, which checks all sizes before it reads data."""

import io
import math
import re
import zipfile
from collections.abc import Callable

import numpy as np

from hackmatrix_rl.system.errors import DamagedFileError, printable, shortened

Check = Callable[[str, str, tuple[int, ...]], None]
"""Checks the name, dtype (such as `<f4`) and shape of an array; raises a DamagedFileError."""

_ENTRY = b"PK\x01\x02"  # the signature of a central directory entry
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
_ENCRYPTED = 1
_MAGIC = b"\x93NUMPY\x01\x00"  # the signature of an .npy file, version 1.0
_LONGEST_HEADER = 1024
_OVERHEAD = len(_MAGIC) + 2 + _LONGEST_HEADER
# Exactly as NumPy writes it. NumPy's reader would parse it as a Python literal.
_HEADER = re.compile(
    r"\{'descr': '([^'\\]{1,20})', 'fortran_order': (True|False), "
    r"'shape': \(((?:[0-9]{1,19}(?:,|(?:, [0-9]{1,19})+))?)\), \} *\n?"
)
_PLAIN = re.compile(r"\|b1|[|]?[iu]1|[<>](?:[iu][248]|f[248])")
"""The accepted dtypes: booleans, integers and floats of at most 8 bytes."""


def read_npz(
    content: bytes, *, most_arrays: int, most_bytes: int, check: Check
) -> dict[str, np.ndarray]:
    """The arrays of an archive by name. No code in it is run.

    It accepts only what NumPy writes for plain numbers, stored or deflated.

    Args:
        content: the archive.
        most_arrays: the most arrays.
        most_bytes: the most bytes of all arrays together.
        check: called for each array, before its data is read.

    Raises:
        DamagedFileError: the archive is malformed or too large, or `check` refuses an array.
    """
    # zipfile first reads the full directory, so its length is bounded before. The signature may
    # also occur in the data by chance.
    if content.count(_ENTRY) > 4 * most_arrays + 64:
        raise DamagedFileError(_too_large(most_arrays, most_bytes))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            size = sum(max(0, each.file_size - _OVERHEAD) for each in members)
            if len(members) > most_arrays or size > most_bytes:
                raise DamagedFileError(_too_large(most_arrays, most_bytes))
            by_name = {each.filename.removesuffix(".npy"): each for each in members}
            if len(by_name) < len(members):
                raise DamagedFileError("holds an array twice")
            return {name: _read(archive, name, each, check) for name, each in by_name.items()}
    except (DamagedFileError, MemoryError):
        raise
    except Exception as error:  # zipfile has no common base class of its errors
        raise DamagedFileError("is no .npz file, or a damaged one") from error


def _too_large(most_arrays: int, most_bytes: int) -> str:
    return f"unpacks to more than {most_arrays:,} arrays or {most_bytes:,} bytes"


def _read(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo, check: Check) -> np.ndarray:
    """Reads one array. Its header is checked before memory of its size is allocated."""
    shown = shortened(name)
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _COMPRESSIONS:
        raise DamagedFileError(f"its array {shown} is encrypted, or compressed as NumPy never does")
    with archive.open(member) as file:
        begin = file.read(len(_MAGIC) + 2)
        length = int.from_bytes(begin[len(_MAGIC) :], "little")
        header = file.read(min(length, _LONGEST_HEADER)).decode("latin-1")
        described = _HEADER.fullmatch(header)
        if not begin.startswith(_MAGIC) or len(header) < length or described is None:
            raise DamagedFileError(
                f"its array {shown} is {printable(header.strip(), 120) or 'no array'}, which NumPy "
                "does not write of plain numbers"
            )
        dtype, fortran, sizes = described.groups()
        shape = tuple(int(each) for each in sizes.split(",") if each.strip())
        check(name, dtype, shape)
        if not _PLAIN.fullmatch(dtype):
            raise DamagedFileError(f"its array {shown} is of dtype {printable(dtype)}")
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if member.file_size != len(begin) + length + size:
            raise DamagedFileError(f"its array {shown} has another size than its shape says")
        numbers = bytearray(file.read(size))
    if len(numbers) != size:
        raise DamagedFileError(f"its array {shown} is cut short")
    if dtype == "|b1" and (np.frombuffer(numbers, np.uint8) > 1).any():
        raise DamagedFileError(f"its array {shown} holds something else than true and false")
    array = np.frombuffer(numbers, kind)
    return array.reshape(shape, order="F" if fortran == "True" else "C")
