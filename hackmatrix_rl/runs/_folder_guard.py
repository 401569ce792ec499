"""Keeps a run's folders in place during the run."""

import errno
from pathlib import Path

from hackmatrix_rl.errors import (
    DamagedFileError,
)
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._lock import (
    LOCK,
    RunLock,
)
from hackmatrix_rl.runs.sinks import Place
from hackmatrix_rl.system import (
    is_remote,
    open_regular,
    read_json,
    write_whole,
)


class FolderGuard(Place):
    """Makes a run's folders again if they are removed during the run.

    Args:
        folder: the run's folder.
        lock: the lock on its folders; an empty one for unlocked folders.
    """

    def __init__(self, folder: RunFolder, lock: RunLock) -> None:
        self._folder = folder
        self._lock = lock
        self._contents: dict[Path, bytes] = {}
        self._again: list[str] = []

    def check(self) -> None:
        """Makes the run's folder again if it was removed, with its small files.

        Raises:
            OSError: the folder cannot be made, or another run is in its place.
        """
        folder = self._folder
        if folder.process > 0:
            folder.path.mkdir(parents=True, exist_ok=True)
            return
        if not self._lock.ours(folder.path):
            self._refuse_another_run()
            self._lock.renew(folder.path)
            self._again.append(LOCK)
        folder.path.mkdir(parents=True, exist_ok=True)  # for unlocked folders
        for file in (folder.config, folder.run, folder.versions):
            if not file.exists():
                if file in self._contents:
                    write_whole(file, [self._contents[file]])
                    self._again.append(file.name)
            elif file not in self._contents:
                with open_regular(file) as opened:
                    self._contents[file] = opened.read()

    def made_again(self, what: str) -> None:
        """Takes the name of a file that was removed and made again, with any loss."""
        self._again.append(what)

    def take_notes(self) -> list[str]:
        """One line with everything made again since the last call, or an empty list."""
        again, self._again = self._again, []
        if not again:
            return []
        return [f"{self._folder.path}: was removed during the run. Made again: {', '.join(again)}"]

    @property
    def checkpoints_gone(self) -> bool:
        """Whether the checkpoint folder was removed."""
        folder = self._folder.checkpoints
        if self._folder.process > 0 or is_remote(folder):
            return False
        return not (folder.is_dir() and self._lock.ours(folder))

    def hold_checkpoints(self) -> None:
        """Makes the checkpoint folder again if it was removed.

        Raises:
            OSError: the folder cannot be made, or another process writes it now.
        """
        folder = self._folder.checkpoints
        if self.checkpoints_gone:
            folder.mkdir(parents=True, exist_ok=True)
            if not self._lock.ours(folder):
                self._lock.renew(folder)

    def _refuse_another_run(self) -> None:
        file = self._folder.run
        try:
            found = (read_json(file) or {}).get("wandb_id", self._folder.wandb_id)
        except DamagedFileError:
            return  # it names no other run
        if found != self._folder.wandb_id:
            raise OSError(errno.EEXIST, f"holds another run now ({found})", file.parent)
