"""Checks of the names of files and folders."""

import os
from pathlib import Path

from etils import epath

from hackmatrix_rl.errors import ConfigError, shortened
from hackmatrix_rl.system._files import is_remote, remote_path

# Limits of Linux and macOS, minus room for the files of a run's folder.
_LONGEST_PART, _LONGEST = 255, 3500


def check_path(path: str | None, said: str) -> None:
    """Raises a ConfigError, which begins with `said`, if no file or folder can have this name."""
    if path is None:
        return
    wrong = _trouble(path)
    if wrong is not None:
        raise ConfigError(f"{said} {shortened(path)}: {wrong}. Use another name.")


def _trouble(path: str) -> str | None:
    if any(ord(each) < 32 for each in path):
        return "a line break or another control character is in it"
    try:
        parts = [os.fsencode(part) for part in path.split("/")]
    except UnicodeEncodeError:
        return "a character is in it that no name can have"
    if len(b"/".join(parts)) > _LONGEST:
        return f"it has {len(path)} characters; at most {_LONGEST} are possible"
    if any(len(part) > _LONGEST_PART for part in parts):
        return f"a part of it has more than {_LONGEST_PART} characters"
    return None


def storage_path(path: epath.PathLike, said: str) -> epath.Path:
    """The path of a file or folder, also in an object store, which is asked whether it answers.

    Raises:
        ConfigError: no file or folder can have this name, or its store cannot be reached.
    """
    check_path(os.fspath(path), said)
    try:
        return remote_path(path) if is_remote(path) else epath.Path(path)
    except OSError as error:
        raise ConfigError(
            f"{said} {shortened(os.fspath(path))}: cannot be reached: {error.strerror or error}."
        ) from error


def check_output_file(file: Path, said: str) -> None:
    """Checks that a file can be written, before the work begins whose result it takes.

    Raises:
        ConfigError: it cannot be written; `said` is the flag that named it.
    """
    check_path(str(file), said)
    folder = file.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"{said} {file}: there is no folder {file.parent}.")
    if file.exists() and not file.is_file():
        raise ConfigError(f"{said} {file}: is no file. Use another name.")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{said} {file}: {folder} cannot be written. Use another folder.")
