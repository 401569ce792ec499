"""Small files of a run: written whole or not at all, and read without trust in their content."""

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from etils import epath

from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing, shortened

AnyPath = TypeVar("AnyPath", Path, epath.Path)

MOST_BYTES = 2**26
"""Bytes of a small file: settings, metadata, a replay. 64 MiB."""

MOST_DEPTH = 50
"""Objects and lists inside one another in JSON from outside. Ours has less than ten."""

# Errors of file systems that cannot flush a folder; a rename is then as safe as they allow.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)

# Limits of Linux and macOS, minus room for the files of a run's folder.
_LONGEST_PART, _LONGEST = 255, 3500


def is_remote(path: epath.PathLike) -> bool:
    """Whether a path is in an object store (`gs://...`)."""
    return "://" in os.fspath(path)


def typed_path(path: epath.PathLike, *, lasting: bool = False) -> str:
    """The path that a user means by a flag, by a key of a settings file or by an argument.

    `~` is the home folder. A `lasting` path is absolute: it is stored, or used after the working
    directory may have changed. The name of an object store (`gs://...`) stays as it is.
    """
    text = os.fspath(path)
    if is_remote(text):
        return text
    with suppress(ValueError):  # a zero byte, which `check_path` refuses
        text = os.path.expanduser(text)
    return os.path.abspath(text) if lasting else text


def write_whole(path: epath.PathLike, content: str | Iterable[bytes], *, mode: int = 0o666) -> None:
    """Writes a file whole or not at all, also through a power cut and in an object store.

    A link in its place is replaced, and its target stays as it is. The `mode` of a local file is
    that before the umask.

    Raises:
        ConfigError: no file can have this name.
        OSError: the file cannot be written; the old file stays.
    """
    check_path(os.fspath(path), "the file")
    pieces = [content.encode()] if isinstance(content, str) else content
    if is_remote(path):
        epath.Path(path).write_bytes(b"".join(pieces))
        return
    place = Path(path)
    # Nobody can guess this name, and so put a link there.
    unfinished = place.with_name(f".{secrets.token_hex(8)}.part")
    try:
        descriptor = open_in_place(unfinished, os.O_WRONLY | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def open_in_place(path: epath.PathLike, flags: int, mode: int = 0o666) -> int:
    """Opens a local file to write into it, or makes it: the one way to do so. A descriptor.

    `flags` are as in `os.open`: `O_WRONLY | O_APPEND`, or `O_EXCL` for a new file. A link is
    not followed, and a file with a second name (a hard link) is refused: either may lead to a file
    in another folder.

    Raises:
        OSError: it is something else than a file with one name, or cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe waits for its reader.
    own = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | own, mode)
    except OSError as error:
        if os.path.islink(path):
            said = f"{Path(path).name} is a link, which is not followed: remove it"
            raise OSError(error.errno, said, str(path)) from error
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    wrong = "is a pipe, a device or a socket, not a file"
    if stat.S_ISREG(found.st_mode):
        wrong = "is a hard link, and writing would change a second file: put a copy there"
    raise OSError(errno.EINVAL, f"{Path(path).name} {wrong}", str(path))


def write_json(
    path: epath.PathLike, content: Mapping[str, Any], *, indent: int = 2, mode: int = 0o666
) -> None:
    """Writes a JSON file with `write_whole`."""
    write_whole(path, json.dumps(content, indent=indent, allow_nan=False) + "\n", mode=mode)


def remote_path(path: epath.PathLike) -> epath.Path:
    """A path in an object store, or an OSError if this installation cannot reach it."""
    try:
        place = epath.Path(path)
        place.exists()  # imports what speaks to the store
    except KeyError as error:
        raise OSError(errno.ENOTSUP, "no kind of storage that is known, such as gs://") from error
    except ImportError as error:
        raise OSError(errno.ENOTSUP, f"{error}") from error
    return place


def open_regular(path: epath.PathLike) -> IO[bytes]:
    """Opens a regular file of any size, also remote: the one way to open a file from outside.

    A pipe, a device or a socket is not opened: reading it may block or never end.
    Links are followed.

    Raises:
        OSError: it is something else than a file, or cannot be opened.
        ValueError: no file can have this path: a zero byte is in it, or a lone surrogate.
    """
    if is_remote(path):
        remote: IO[bytes] = remote_path(path).open("rb")
        return remote
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file")
    raise OSError(errno.EINVAL, "a pipe, a device or a socket, not a file")


def read_bounded(path: epath.PathLike, most: int = MOST_BYTES) -> bytes:
    """The content of a file of a bounded number of bytes, opened by `open_regular`.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it is something else than a file, larger, or cannot be read. The message
            follows the path in a sentence: `is a folder, not a file`.
    """
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(os.fspath(path)) from error
    except IsADirectoryError as error:
        raise DamagedFileError("is a folder, not a file") from error
    except OSError as error:
        raise DamagedFileError(f"cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise DamagedFileError("is no path of a file") from error
    if len(content) > most:
        raise DamagedFileError(f"is too large: more than {most:,} bytes")
    return content


def read_json(path: epath.PathLike, most: int = MOST_BYTES) -> dict[str, Any] | None:
    """The JSON object in a file, read by `read_bounded`; `None` without such a file.

    Raises:
        DamagedFileError: the file has other content, or cannot be read.
    """
    try:
        content = read_bounded(path, most)
    except FileNotFoundError:
        return None
    if not content.strip():
        raise DamagedFileError("is empty")
    try:
        value = parse_json(content)
    except ValueError as error:
        raise DamagedFileError("is not JSON") from error
    if not isinstance(value, dict):
        raise DamagedFileError("is not a JSON object")
    return value


def parse_json(content: bytes) -> Any:
    """The JSON value in a text from outside, in which nothing is nested deeper than `MOST_DEPTH`.

    Raises:
        ValueError: it is no JSON, or nested deeper.
    """
    try:
        value = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    inside = [value]
    for _ in range(MOST_DEPTH):
        lists = [each for each in inside if isinstance(each, list)]
        objects = [each.values() for each in inside if isinstance(each, dict)]
        inside = [each for values in (*lists, *objects) for each in values]
        if not inside:
            return value
    # Whatever shows or stores it later is a recursion, too, and begins further down.
    raise ValueError("nested too deeply")


def set_aside(path: AnyPath) -> AnyPath:
    """Renames an unusable file to a new `NAME.damaged`: it is neither lost nor in the way."""
    aside, number = path.with_name(f"{path.name}.damaged"), 1
    while aside.exists() or os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.damaged_{number}")
    path.rename(aside)
    return aside


def _sync_folder(folder: Path) -> None:
    """Makes a rename in a folder permanent."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


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
    with refusing(f"{said} {shortened(os.fspath(path))}: cannot be reached: ", of=OSError):
        return remote_path(path) if is_remote(path) else epath.Path(path)


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
