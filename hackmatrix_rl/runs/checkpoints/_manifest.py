"""The manifest of a checkpoint: its files with their SHA-256 sums.

The manifest is written last. A folder without one is incomplete. A folder with wrong sums is
damaged; Orbax itself would read it without an error.
"""

import hashlib
import os
from collections.abc import Iterator

from etils import epath

from hackmatrix_rl.system import open_regular, read_json, write_json
from hackmatrix_rl.system.errors import DamagedFileError

NAME = "manifest.json"
_CHUNK = 1 << 20


def write_manifest(folder: epath.Path) -> int:
    """Writes the sums of all files in a checkpoint's folder, and returns their size in bytes."""
    sums = {name: sha256_of(path) for name, path in _files(folder)}
    size = sum(path.stat().length for _, path in _files(folder))
    write_json(folder / NAME, {"sha256": sums}, indent=1)
    return size


def damage(folder: epath.Path) -> str | None:
    """The first fault of a checkpoint's files, in words, or `None`."""
    if not folder.is_dir():
        return "no folder"
    try:
        odd = not_plain(folder)
    except OSError as error:
        return f"damaged: it cannot be read ({error.strerror or error})"
    if odd is not None:
        return odd
    try:
        manifest = read_json(folder / NAME)
    except DamagedFileError:
        return "damaged: its manifest cannot be read"
    if manifest is None:
        return "incomplete: it has no manifest"
    sums = manifest.get("sha256")
    if not isinstance(sums, dict):
        return "damaged: its manifest cannot be read"
    try:
        present = dict(_files(folder))
        for name, expected in sums.items():
            if name not in present:
                return f"damaged: {name} is missing"
            if sha256_of(present[name]) != expected:
                return f"damaged: {name} is not what was written"
    except OSError as error:
        return f"damaged: it cannot be read ({error.strerror or error})"
    return None


def not_plain(folder: epath.Path) -> str | None:
    """The first entry of a checkpoint's folder that is not a plain file, in words, or `None`.

    A link could lead anywhere.
    """
    here = [(name, folder / name) for name in (NAME, NAME + ".part") if (folder / name).exists()]
    for name, path in (*here, *_files(folder)):
        if os.path.islink(path):
            return f"damaged: {name} is a link; copy its target (cp -rL)"
        # Only `epath` sees remote paths, and it treats a pipe as a file.
        if os.path.exists(path) and not os.path.isfile(path):
            return f"damaged: {name} is not a file"
    return None


def _files(folder: epath.Path) -> Iterator[tuple[str, epath.Path]]:
    """All files except the manifest, by their names within the folder."""
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir() and not os.path.islink(path):
                waiting.append(path)
            elif path.name not in (NAME, NAME + ".part"):
                yield str(path.relative_to(folder)), path


def sha256_of(path: epath.Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
