"""A program that speaks the line protocol: the original's binary, or this package's server."""

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from hackmatrix_rl.errors import ConfigError, shortened
from hackmatrix_rl.protocol._records import Record
from hackmatrix_rl.protocol._screen import Json
from hackmatrix_rl.protocol.client._seen_game import mask_of

_LEAVE_SECONDS = 5.0
"""How long an app may take to end after its input has."""


class AppError(ConfigError):
    """An app that ended, is late, or answers something else than the protocol says."""


class App:
    """An app as a process, asked one thing at a time. Use it as a context.

    Args:
        command: the app, and its flags.
        patience: seconds that an answer may take.

    Raises:
        AppError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, patience: float) -> None:
        self._name = Path(command[0]).name
        self._patience = patience
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise AppError(f"the app {command[0]} cannot be started: {why}") from error
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, name="app", daemon=True).start()

    def __enter__(self) -> "App":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the app: first by the end of its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):  # what it did not read is lost
            self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def reset(self) -> Json:
        """Begins a game; its first observation."""
        observation: Json = self.ask({"action": "reset"}, "observation")["observation"]
        return observation

    def valid_actions(self) -> np.ndarray:
        """The mask of the legal actions."""
        answer = self.ask({"action": "getValidActions"}, "validActions")
        return mask_of(Record(answer, "answer", ["validActions"]))

    def step(self, action: int) -> Json:
        """Takes an action; the answer."""
        return self.ask({"action": "step", "actionIndex": action}, "observation")

    def ask(self, request: Json, expected: str) -> Json:
        """The answer to a request, which must have the field that is expected.

        Raises:
            AppError: the app has ended, is late, or answers otherwise.
        """
        said = request["action"]
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise AppError(self._ended(said)) from error
        try:
            line = self._answers.get(timeout=self._patience)
        except queue.Empty as error:
            raise AppError(
                f"{self._name} has not answered {said} within {self._patience:g} s"
            ) from error
        if not line:
            raise AppError(self._ended(said))
        return self._read(line, said, expected)

    def _read(self, line: bytes, said: str, expected: str) -> Json:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            shown = shortened(repr(line.decode(errors="replace").strip()))
            raise AppError(f"{self._name} answers {said} with {shown}, which is no JSON") from error
        if isinstance(answer, dict) and "error" in answer:
            raise AppError(f"{self._name} refuses {said}: {shortened(str(answer['error']))}")
        if not isinstance(answer, dict) or expected not in answer:
            shown = shortened(repr(answer))
            raise AppError(f"{self._name} answers {said} without {expected}: {shown}")
        return answer

    def _listen(self) -> None:
        """Passes on its lines; an empty one stands for its end."""
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):  # `__exit__` closes it
            for line in self._process.stdout:
                self._answers.put(line)
        self._answers.put(b"")

    def _ended(self, said: str) -> str:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return f"{self._name} closed its output at {said}"
        return f"{self._name} ended at {said}, with exit status {status}"
