"""Keeps a checkpoint on disk while it is read: its run deletes none that a process holds.

A reader holds a shared lock on the manifest. A run deletes the manifest first, under an exclusive
lock, and keeps the checkpoint if it does not get the lock. Object stores and some network disks
have no locks, and there nothing is held.
"""

import errno
import fcntl
import os
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from etils import epath

from hackmatrix_rl.runs.checkpoints._finder import Report, find_checkpoint, has_manifest
from hackmatrix_rl.runs.checkpoints._manifest import NAME as MANIFEST
from hackmatrix_rl.system import NO_LOCKS, is_remote, open_in_place, open_regular


class Hold:
    """Keeps a checkpoint from deletion, inside `with`, or while something refers to this object.

    Raises:
        FileNotFoundError: the checkpoint is no longer there.
    """

    def __init__(self, checkpoint: epath.PathLike) -> None:
        self._close: weakref.finalize[..., Hold] | None = None
        if is_remote(checkpoint):
            return
        path = Path(checkpoint) / MANIFEST
        file = open_regular(path)
        self._close = weakref.finalize(self, file.close)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:  # a run deletes it
            raise FileNotFoundError(error.errno, "is being deleted", str(path)) from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        if os.fstat(file.fileno()).st_nlink == 0:  # deleted before the lock
            raise FileNotFoundError(errno.ENOENT, "was deleted", str(path))

    def __enter__(self) -> "Hold":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._close is not None:
            self._close()


def hold_checkpoint(
    run: str | Path, *, best: bool = False, report: Report = warnings.warn
) -> tuple[epath.Path, Hold | None]:
    """The checkpoint of `find_checkpoint`, held; `None` for one of format 1, which no run deletes.

    Raises:
        NoCheckpointError: the checkpoint does not exist.
        ConfigError: it cannot be used.
    """
    while True:
        folder = find_checkpoint(run, best=best, report=report)
        if not has_manifest(folder):
            return folder, None
        try:
            return folder, Hold(folder)
        except FileNotFoundError:  # deleted since it was found: find another
            continue


@contextmanager
def deleting(checkpoint: epath.Path) -> Iterator[bool]:
    """Whether nobody holds a checkpoint. Inside the `with`, nobody can begin to hold it."""
    if is_remote(checkpoint):
        yield True
        return
    path = Path(checkpoint) / MANIFEST
    file: IO[bytes]
    try:
        file = os.fdopen(open_in_place(path, os.O_RDWR), "rb")  # NFS locks no other file like this
    except OSError:  # read-only, or a hard link
        file = open_regular(path)
    with file:
        free = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield free
