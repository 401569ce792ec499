"""Locks: only one process at a time writes a run's folder and its checkpoint folder."""

import contextlib
import errno
import fcntl
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from etils import epath

from hackmatrix_rl.errors import (
    ConfigError,
)
from hackmatrix_rl.system import (
    is_remote,
    set_aside,
)

LOCK = "lock"
"""Name of the lock file in a folder."""

# Errors of `flock` on file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_ATTEMPTS = 100  # attempts while other processes remove and make the same folder
_SHOWN = 200  # bytes of a lock file that a message repeats


class RunLock:
    """Folders that only this process writes.

    A folder is free again when its lock is closed, or when the process dies in any way.

    Attributes:
        notes: messages for people.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._held: dict[Path, _Held] = {}
        self._made: list[Path] = []

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, ConfigError):
            self.withdraw()
        else:
            self.close()

    def take(self, option: str, folder: epath.PathLike, *, new: bool = False) -> None:
        """Locks a folder and makes it if it is missing. Does not wait.

        Args:
            option: the flag that named the folder, for messages.
            folder: the folder; a second call for the same folder does nothing.
            new: the folder must not exist.

        Raises:
            ConfigError: a live process holds the folder, or it cannot be written.
            FileExistsError: the folder exists, but must be new.
        """
        if is_remote(folder):
            self._note_no_locks(option, folder)
            return
        place = Path(folder)
        if not new and place.exists() and any(place.samefile(other) for other in self._here()):
            return
        try:
            self._held[place] = _lock(place, self._made, new=new)
        except BlockingIOError as error:
            otherwise = "" if option == "--resume-run" else ", or choose another folder"
            raise ConfigError(
                f"{option} {place}: is still being written by {error.strerror}. Wait until it "
                f"ends, or stop it (kill -TERM saves and ends){otherwise}."
            ) from error
        except OSError as error:
            if new and isinstance(error, FileExistsError):
                raise
            raise unwritable(option, place, error) from error
        self.notes += [f"{option} {place}: {note}" for note in self._held[place].notes]
        if not self._held[place].locked:
            self._note_no_locks(option, place)

    def ours(self, folder: epath.PathLike) -> bool:
        """Whether a locked folder still has its lock; true for a folder that was never locked."""
        held = self._held.get(Path(folder))
        return held is None or _same(Path(folder) / LOCK, held.file)

    def renew(self, folder: epath.PathLike) -> None:
        """Makes a removed folder again if needed, and locks it.

        Raises:
            OSError: the folder cannot be made, or another process holds it now.
        """
        place = Path(folder)
        lost = self._held[place]
        try:
            self._held[place] = _lock(place, self._made)
        except BlockingIOError as error:
            raise OSError(errno.EBUSY, f"is now written by {error.strerror}", place) from error
        os.close(lost.file)

    def close(self) -> None:
        """Frees all folders."""
        for folder, held in self._held.items():
            # Without locks, the file may also belong to another process.
            if held.locked and _same(folder / LOCK, held.file):
                # On a read-only disk the file stays, but it locks nothing.
                with contextlib.suppress(OSError):
                    (folder / LOCK).unlink()
            os.close(held.file)
        self._held.clear()

    def withdraw(self) -> None:
        """Frees all folders, and removes those that it made if they are empty."""
        self.close()
        for folder in reversed(self._made):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        self._made.clear()

    def _here(self) -> list[Path]:
        return [folder for folder in self._held if folder.exists()]

    def _note_no_locks(self, option: str, folder: epath.PathLike) -> None:
        self.notes.append(
            f"{option} {folder}: this file system has no locks, so a second run could write there "
            "at the same time."
        )


@dataclass
class _Held:
    """A lock on one folder.

    Attributes:
        file: descriptor of the lock file.
        locked: whether it is locked; false on a file system without locks.
        notes: messages about renamed files.
    """

    file: int
    locked: bool
    notes: list[str] = field(default_factory=list)


def is_locked(folder: Path) -> bool:
    """Whether a process writes a folder now, as far as this machine can tell."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:  # no lock: nobody writes
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False


def unwritable(option: str, folder: epath.PathLike, error: OSError) -> ConfigError:
    """The error for a folder that cannot be written."""
    return ConfigError(
        f"{option} {os.fspath(folder)}: cannot be written: {error.strerror or error}. "
        "Choose another folder."
    )


def _lock(folder: Path, made: list[Path], *, new: bool = False) -> _Held:
    """Locks a folder.

    Args:
        folder: the folder, made if it is missing.
        made: takes the folders that were made, outermost first.
        new: the folder must not exist.

    Raises:
        BlockingIOError: another process holds the folder; `strerror` names it.
        FileExistsError: the folder exists, but must be new.
    """
    for _ in range(_ATTEMPTS):
        try:
            _make_folders(folder, made, new=new and folder not in made)
            notes = _clear_the_way(folder / LOCK)
            file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:  # removed meanwhile by another process
            continue
        try:
            locked = _flock(file)
            # Another process may have removed the file before this lock.
            if _same(folder / LOCK, file):
                os.ftruncate(file, 0)
                os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                return _Held(file, locked, notes)
        except OSError:
            os.close(file)
            raise
        os.close(file)
    raise OSError(errno.EBUSY, "other processes remove it again and again")


def _make_folders(folder: Path, made: list[Path], *, new: bool) -> None:
    missing = [folder] if new else []
    above = folder.parent if new else folder
    while not above.is_dir() and above != above.parent:
        missing.append(above)
        above = above.parent
    for each in reversed(missing):
        try:
            each.mkdir()
        except FileExistsError:
            # Another process made it first.
            if (new and each == folder) or not each.is_dir():
                raise
        else:
            made.append(each)


def _flock(file: int) -> bool:
    """Locks an open file; false on a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        said = os.pread(file, _SHOWN, 0).decode(errors="replace").split("\n")[0].strip()
        raise BlockingIOError(error.errno, said or "another process") from error
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def _clear_the_way(lock: Path) -> list[str]:
    """Renames a lock that is not a file, and makes an unreadable one readable."""
    if lock.is_dir():
        return [f"{lock.name} was a folder; it is now {set_aside(lock).name}"]
    if lock.exists() and not os.access(lock, os.R_OK | os.W_OK):
        # Not renamed, because a process may hold it.
        lock.chmod(0o644)
    return []


def _same(path: Path, file: int) -> bool:
    """Whether a path is that of an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
            return False
        raise
