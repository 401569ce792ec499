"""Checks of the names of files and folders."""

import os
from pathlib import Path

from hackmatrix_rl.errors import (
    ConfigError,
    shortened,
)

# Limits of Linux and macOS, minus room for the files of a run's folder.
_LONGEST_PART, _LONGEST = 255, 3500


def check_path(path: str | None, said: str) -> None:
    """Raises a ConfigError if no file or folder can have this name.

    Args:
        path: the name, also a remote one (`gs://...`); `None` passes.
        said: the flag or argument with the name.
    """
    if path is None:
        return
    wrong = None
    if any(ord(each) < 32 for each in path):
        wrong = "a line break or another control character is in it"
    elif any("\ud800" <= each < "\udc80" or "\udcff" < each <= "\udfff" for each in path):
        wrong = "half of a character is in it"
    elif len(os.fsencode(path)) > _LONGEST:
        wrong = f"it has {len(path)} characters; at most {_LONGEST} are possible"
    elif any(len(os.fsencode(part)) > _LONGEST_PART for part in path.split("/")):
        wrong = f"a part of it has more than {_LONGEST_PART} characters"
    if wrong is not None:
        raise ConfigError(f"{said} {shortened(path)}: {wrong}. Use another name.")


def check_output_file(file: Path, said: str) -> None:
    """Checks that a file can be written, before the work begins whose result it takes.

    Args:
        file: it need not exist.
        said: the flag that named it.

    Raises:
        ConfigError: if it cannot be written.
    """
    check_path(str(file), said)
    folder = file.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"{said} {file}: there is no folder {file.parent}.")
    if file.exists() and not file.is_file():
        raise ConfigError(f"{said} {file}: is no file. Use another name.")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{said} {file}: {folder} cannot be written. Use another folder.")
