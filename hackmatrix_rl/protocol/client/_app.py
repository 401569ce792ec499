"""A program that speaks the line protocol: the original's binary, or this package's server."""

import json
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

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
        person: whether a person plays in its window. The answers to the person's steps, which
            nobody has asked for, are kept for `next_move`.

    Raises:
        AppError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, patience: float, person: bool = False) -> None:
        self._name = Path(command[0]).name
        self._patience = patience
        self._person = person
        self._moves: deque[Json] = deque()
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
        self._moves.clear()  # of the game before
        return observation

    def valid_actions(self) -> np.ndarray:
        """The mask of the legal actions."""
        answer = self.ask({"action": "getValidActions"}, "validActions")
        return mask_of(Record(answer, "answer", ["validActions"]))

    def step(self, action: int) -> Json:
        """Takes an action; the answer."""
        return self.ask({"action": "step", "actionIndex": action}, "observation")

    @property
    def moved(self) -> bool:
        """Whether a move of the person waits for `next_move`."""
        return bool(self._moves)

    def next_move(self) -> Json:
        """The answer to the person's next step, however long that takes.

        Raises:
            AppError: the app has ended, or answers otherwise.
        """
        return self._moves.popleft() if self._moves else self._next("a person's move", "reward")

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
        return self._next(said, expected, patience=self._patience)

    def _next(self, said: str, expected: str, *, patience: float | None = None) -> Json:
        """The next answer, within so many seconds; a person's moves before it are kept."""
        while True:
            try:
                line = self._answers.get(timeout=patience)
            except queue.Empty as error:
                raise AppError(
                    f"{self._name} has not answered {said} within {patience:g} s"
                ) from error
            answer = self._read(line, said)
            fields = answer if isinstance(answer, dict) else {}
            if "error" in fields:
                raise AppError(f"{self._name} refuses {said}: {shortened(str(fields['error']))}")
            if self._person and expected != "reward" and "reward" in fields:
                self._moves.append(fields)
            elif expected in fields:
                return fields
            else:
                shown = shortened(repr(answer))
                raise AppError(f"{self._name} answers {said} without {expected}: {shown}")

    def _read(self, line: bytes, said: str) -> Any:
        """The value that a line holds."""
        if not line:
            raise AppError(self._ended(said))
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            shown = shortened(repr(line.decode(errors="replace").strip()))
            raise AppError(f"{self._name} answers {said} with {shown}, which is no JSON") from error

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
