"""Paths for Orbax, which work with any name of a folder."""

import glob
import os
from collections.abc import Iterator
from typing import Any

from etils import epath

from hackmatrix_rl.system import is_remote
from hackmatrix_rl.system.errors import ConfigError, shortened

# Google advises against these in the names of objects: its tools interpret them as patterns.
_PATTERNS = "*?[]#"


# mypy knows no computed base class.
class _Folder(type(epath.Path(os.sep))):  # type: ignore[misc]
    """A local path whose `glob` does not interpret the name of the folder as a pattern.

    `epath.Path("seed[1]").glob("*")` searches `seed1`, and Orbax finds the arrays of each process
    by `glob`.
    """

    def glob(self, pattern: str) -> Iterator[Any]:
        found = glob.glob(os.path.join(glob.escape(os.fspath(self)), pattern))
        return (type(self)(each) for each in found)


def place(folder: epath.PathLike) -> epath.Path:
    """The absolute path of a folder for Orbax, which accepts no relative ones."""
    check_place(folder)
    text = os.fspath(folder)
    return epath.Path(text) if is_remote(text) else _Folder(os.path.abspath(text))


def orbax_context(folder: epath.Path) -> Any:
    """Orbax's settings for a folder, whose name may have characters of a pattern."""
    from orbax.checkpoint import v1 as ocp  # half a second, and few commands need it

    context = ocp.Context()
    context.file.path_class = type(folder)
    # In the background, a failure to create a folder would leave waiting threads, and the process
    # would not end.
    context.asynchronous.create_directories_asynchronously = False
    return context


def check_place(folder: epath.PathLike, said: str = "") -> None:
    """Refuses a folder whose name does not allow checkpoints in it."""
    text = os.fspath(folder)
    absolute = text if is_remote(text) else os.path.abspath(text)
    wrong = None
    if "\\" in absolute:
        wrong = "its full path has a backslash, which TensorStore reads as a slash"
    elif is_remote(absolute):
        if odd := next((each for each in _PATTERNS if each in absolute), None):
            wrong = f"its name has a {odd}, which the tools of object stores read as a pattern"
    elif is_remote(os.fspath(epath.Path(absolute))):
        wrong = f"etils reads this path as {epath.Path(absolute)}"
    if wrong is not None:
        raise ConfigError(
            f"{said} {shortened(text)}: cannot keep checkpoints: {wrong}. Use another "
            "folder.".lstrip()
        )
