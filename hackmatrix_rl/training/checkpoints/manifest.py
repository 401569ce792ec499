"""What makes a checkpoint whole: a list of its files with their SHA-256 sums.

The manifest is written last, after everything else is in place. A folder without one is half
a checkpoint. One whose sums differ has been damaged since: Orbax itself would read it without
a word.
"""

import hashlib
import json
from collections.abc import Iterator

from etils import epath

NAME = "manifest.json"
_CHUNK = 1 << 20


def write_manifest(folder: epath.Path) -> int:
    """Writes the sums of all files in a checkpoint's folder.

    Args:
        folder: of a checkpoint that is otherwise complete; may be remote.

    Returns:
        The size of the files in bytes.
    """
    sums = {name: _sha256(path) for name, path in _files(folder)}
    size = sum(path.stat().length for _, path in _files(folder))
    # Renamed into place: a manifest is there whole or not at all.
    unfinished = folder / (NAME + ".part")
    unfinished.write_text(json.dumps({"sha256": sums}, indent=1))
    unfinished.rename(folder / NAME)
    return size


def damage(folder: epath.Path) -> str | None:
    """What is wrong with a checkpoint's files, in words; `None` if nothing is.

    Args:
        folder: of the checkpoint; may be remote.
    """
    if not (folder / NAME).exists():
        return "half-written: it has no manifest"
    try:
        sums: dict[str, str] = json.loads((folder / NAME).read_text())["sha256"]
    except (ValueError, KeyError, TypeError):
        return "damaged: its manifest cannot be read"
    present = dict(_files(folder))
    for name, expected in sums.items():
        if name not in present:
            return f"damaged: {name} is missing"
        if _sha256(present[name]) != expected:
            return f"damaged: {name} is not what was written"
    return None


def _files(folder: epath.Path) -> Iterator[tuple[str, epath.Path]]:
    """All files but the manifest, by their names within the folder."""
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir():
                waiting.append(path)
            elif path.name not in (NAME, NAME + ".part"):
                yield str(path.relative_to(folder)), path


def _sha256(path: epath.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
