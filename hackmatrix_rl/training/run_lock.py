"""One process at a time writes a run."""

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType

from hackmatrix_rl.training.config import ConfigError


class RunLock:
    """Held while a run is written; gives way by itself when its process dies, however it does.

    Args:
        folder: of the run.

    Raises:
        ConfigError: if a live process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise ConfigError(
                f"--resume-run {folder}: is still being written by {holder}. Wait until it ends, "
                "or stop it (kill -TERM saves and ends)."
            ) from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go."""
        self._file.close()
