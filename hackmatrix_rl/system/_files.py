"""Small files of a run: atomic writes, and reads of untrusted content."""

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
"""The most bytes of a small file, such as settings, metadata or a replay: 64 MiB."""

MOST_DEPTH = 50
"""The deepest nesting of untrusted JSON. The package writes fewer than ten levels."""

NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors of `flock` on file systems without locks; the first is NFS's for a read-only file."""

# Errors of file systems that cannot sync a folder; a rename is then as safe as they allow.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)

# Limits of Linux and macOS, less room for the names of files in a run folder.
_LONGEST_PART, _LONGEST = 255, 3500


def is_remote(path: epath.PathLike) -> bool:
    """Whether a path is in an object store (`gs://...`)."""
    return "://" in os.fspath(path)


def typed_path(path: epath.PathLike, *, lasting: bool = False) -> str:
    """Expands a path from a flag, a settings file or an argument.

    `~` is the home folder. A `lasting` path becomes absolute, because it is stored, or used after
    the working directory may have changed. A path in an object store (`gs://...`) is unchanged.
    """
    text = os.fspath(path)
    if is_remote(text):
        return text
    with suppress(ValueError):  # a zero byte, which `check_path` refuses
        text = os.path.expanduser(text)
    return os.path.abspath(text) if lasting else text


def write_whole(path: epath.PathLike, content: str | Iterable[bytes], *, mode: int = 0o666) -> None:
    """Writes a file atomically, even through a power failure and in an object store.

    A symbolic link at this path is replaced; its target is unchanged. `mode` is subject to the
    umask.

    Raises:
        ConfigError: the name is invalid.
        OSError: the file cannot be written. The old file is unchanged.
    """
    check_path(os.fspath(path), "the file")
    pieces = [content.encode()] if isinstance(content, str) else content
    if is_remote(path):
        epath.Path(path).write_bytes(b"".join(pieces))
        return
    place = Path(path)
    # An unpredictable name, so that nobody can place a link there.
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
    """Opens or creates a local file for writing, and returns its descriptor.

    All writes to local files go through this function. `flags` are as in `os.open`: `O_WRONLY |
    O_APPEND`, or `O_EXCL` for a new file. It refuses symbolic and hard links, because they may lead
    to a file in another folder.

    Raises:
        OSError: it is not a regular file with a single name, or cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe waits for its reader.
    safe = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | safe, mode)
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
    """A path in an object store. Raises an OSError if this installation cannot access it."""
    try:
        place = epath.Path(path)
        place.exists()  # imports the client of the store
    except KeyError as error:
        raise OSError(errno.ENOTSUP, "no kind of storage that is known, such as gs://") from error
    except ImportError as error:
        raise OSError(errno.ENOTSUP, f"{error}") from error
    return place


def open_regular(path: epath.PathLike) -> IO[bytes]:
    """Opens a regular file, local or remote, for reading.

    All reads of untrusted files go through this function. It refuses pipes, devices and sockets,
    which may block or never end. It follows links.

    Raises:
        OSError: it is not a regular file, or cannot be opened.
        ValueError: the path contains a null byte or a lone surrogate.
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
    """The content of a file of at most `most` bytes.

    Raises:
        FileNotFoundError: the file does not exist.
        DamagedFileError: it is not a regular file, is larger, or cannot be read. The message
            continues a sentence that starts with the path: `is a folder, not a file`.
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
        raise DamagedFileError("is not a valid path of a file") from error
    if len(content) > most:
        raise DamagedFileError(f"is too large: more than {most:,} bytes")
    return content


def read_json(path: epath.PathLike, most: int = MOST_BYTES) -> dict[str, Any] | None:
    """The JSON object in a file of at most `most` bytes; `None` if the file does not exist.

    Raises:
        DamagedFileError: the file is not a JSON object, is larger, or cannot be read.
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
    """Parses untrusted JSON.

    Raises:
        ValueError: it is not JSON, or is nested deeper than `MOST_DEPTH`.
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
    # Later code recurses over the value with less of the stack left.
    raise ValueError("nested too deeply")


def set_aside(path: AnyPath) -> AnyPath:
    """Renames an unusable file to a free name: `NAME.damaged`, `NAME.damaged_2`, ..."""
    aside, number = path.with_name(f"{path.name}.damaged"), 1
    while aside.exists() or os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.damaged_{number}")
    path.rename(aside)
    return aside


def _sync_folder(folder: Path) -> None:
    """Makes a rename in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def check_path(path: str | None, said: str) -> None:
    """Raises a ConfigError, which starts with `said`, if this is not a valid name for a file."""
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
    """A local or remote path. The object store of a remote path is contacted.

    Raises:
        ConfigError: the name is invalid, or the store cannot be reached.
    """
    check_path(os.fspath(path), said)
    with refusing(f"{said} {shortened(os.fspath(path))}: cannot be reached: ", of=OSError):
        return remote_path(path) if is_remote(path) else epath.Path(path)


def check_output_file(file: Path, said: str) -> None:
    """Checks that a file can be written. Call it before the work that produces its content.

    Raises:
        ConfigError: the file cannot be written. The message starts with the flag `said`.
    """
    check_path(str(file), said)
    folder = file.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"{said} {file}: there is no folder {file.parent}.")
    if file.exists() and not file.is_file():
        raise ConfigError(f"{said} {file}: is not a file. Use another name.")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{said} {file}: {folder} cannot be written. Use another folder.")
