"""Locks: only one process at a time writes a run's folder and its checkpoint folder."""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from etils import epath

from hackmatrix_rl.system import NO_LOCKS, is_remote, open_in_place, set_aside
from hackmatrix_rl.system.errors import ConfigError, refusing

LOCK = "lock"
"""Name of the lock file in a folder."""

CHECKPOINTS = "checkpoints"
"""Name of the folder of checkpoints within the folder of a run."""

_ATTEMPTS = 100  # attempts while other processes remove and make the same folder
_OWNER = b"process "  # the prefix of a lock file's content
_SHOWN = 200  # bytes of a lock file that a message quotes


class RunLock:
    """Exclusive locks on folders, until `close` or the end of the process.

    `notes` are messages for the user.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._held: dict[Path, int] = {}
        self._unlocked: set[str] = set()  # options whose folders have no locks
        self._made: list[Path] = []

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, ConfigError):
            self.withdraw()
        else:
            self.close()

    def take(self, option: str, folder: epath.PathLike, *, new: bool = False) -> None:
        """Locks a folder, creating it if it is missing. Does not block.

        `option` is the flag that named the folder. A second call for the same folder does nothing,
        unless it must be `new`.
        """
        path = Path(folder)
        if not new and any(_is_open(path / LOCK, file) for file in self._held.values()):
            return
        try:
            locked = not is_remote(folder) and self._lock(path, new=new)
        except BlockingIOError as error:
            otherwise = "" if option == "--resume-run" else ", or choose another folder"
            raise ConfigError(
                f"{option} {path}: is still being written by {error.strerror}. Wait until it "
                f"ends, or stop it (kill -TERM saves and ends){otherwise}."
            ) from error
        except OSError as error:
            if new and isinstance(error, FileExistsError):
                raise
            raise unwritable(option, path, error) from error
        if not locked and option not in self._unlocked:
            self._unlocked.add(option)
            self.notes.append(
                f"{option} {folder}: this file system has no locks, so a second run could write "
                "there at the same time."
            )

    def close(self) -> None:
        """Releases all locks."""
        for folder, file in self._held.items():
            if _is_open(folder / LOCK, file):
                # On a read-only disk the file stays, but it locks nothing.
                with contextlib.suppress(OSError):
                    (folder / LOCK).unlink()
            os.close(file)
        self._held.clear()

    def withdraw(self) -> None:
        """Releases all locks, and removes the folders that it created, if they are empty."""
        self.close()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):  # it is not empty, or gone
                folder.rmdir()
        self._made.clear()

    def _lock(self, folder: Path, *, new: bool) -> bool:
        """Creates and locks a folder; false on a file system without locks.

        The `strerror` of its BlockingIOError names the process that holds the folder.
        """
        for _ in range(_ATTEMPTS):
            missing = [each for each in (folder, *folder.parents) if not each.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=not new or folder in self._made)
                self._made += reversed(missing)
                file = open_in_place(folder / LOCK, os.O_RDWR)
            except FileNotFoundError:  # removed meanwhile by another process
                continue
            with contextlib.ExitStack() as unless_held:
                unless_held.callback(os.close, file)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    said = os.pread(file, _SHOWN, 0).decode(errors="replace").split("\n")[0].strip()
                    raise BlockingIOError(error.errno, said or "another process") from error
                except OSError as error:
                    if error.errno in NO_LOCKS:
                        return False
                    raise
                # Another process may have removed the file before this lock.
                if not _is_open(folder / LOCK, file):
                    continue
                if os.pread(file, len(_OWNER), 0) not in (b"", _OWNER):
                    set_aside(folder / LOCK)  # not a lock, but perhaps a user's file
                else:
                    os.ftruncate(file, 0)
                    owner = f"{os.getpid()} on {socket.gethostname()}".encode()
                    os.pwrite(file, _OWNER + owner, 0)
                    unless_held.pop_all()
                    self._held[folder] = file
                    return True
        raise OSError(errno.EBUSY, "other processes remove it again and again")


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a folder, as far as this machine knows."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # no lock of a run: nobody writes
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:  # other errors: a file system without locks
        return isinstance(error, BlockingIOError)
    finally:
        os.close(file)
    return False


def unwritable(option: str, folder: epath.PathLike, error: OSError) -> ConfigError:
    """The error for a folder that cannot be written."""
    return ConfigError(
        f"{option} {os.fspath(folder)}: cannot be written: {error.strerror or error}. "
        "Choose another folder."
    )


def check_links(folder: Path, said: str, *, checkpoints: bool = True, deep: bool = True) -> None:
    """Refuses symbolic links that lead out of a folder, at any depth: writes would follow them.

    Entries of the checkpoint folder may be links, because a new checkpoint is never written into an
    existing entry. Without `checkpoints`, that folder itself may be a link. Unless `deep`, only the
    direct entries of the folder are checked.
    """
    inside = Path(os.path.realpath(folder))
    with refusing(f"{said}: cannot be read: ", of=OSError):
        entries = list(_entries(folder, deep=deep))
    for entry in sorted(entries):
        if not checkpoints and entry == folder / CHECKPOINTS:
            continue
        name = entry.relative_to(folder)
        if entry.is_symlink() and not Path(os.path.realpath(entry)).is_relative_to(inside):
            instead = "Put the file itself there, or remove the link."
            if entry == folder / CHECKPOINTS:
                instead = "If you want that folder, give its target as --checkpoint-dir."
            raise ConfigError(
                f"{said}: {name} in it is a link that leads out of the folder. {instead}"
            )
        if entry.exists() and not (entry.is_file() or entry.is_dir()):
            raise ConfigError(f"{said}: {name} in it is neither a file nor a folder. Remove it.")


def _entries(folder: Path, *, deep: bool) -> Iterator[Path]:
    """The paths in a folder, except inside its checkpoint folder; links are not followed."""
    for place, folders, files in os.walk(folder, onerror=_fail):
        yield from (Path(place, name) for name in (*folders, *files))
        top = Path(place) == folder
        folders[:] = [each for each in folders if deep and not (top and each == CHECKPOINTS)]


def _fail(error: OSError) -> None:
    raise error


def _is_open(path: Path, file: int) -> bool:
    """Whether a path, which may be a link, names an open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file))
    except OSError:  # the path is gone
        return False
