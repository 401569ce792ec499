"""A program that speaks the line protocol: the original's binary, or this package's server."""

import json
import math
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix_rl.interop.protocol._records import Record
from hackmatrix_rl.interop.protocol._screen import Json
from hackmatrix_rl.interop.protocol.client._pipes import LongLineError, Pipes
from hackmatrix_rl.interop.protocol.client._seen_game import mask_of
from hackmatrix_rl.system import parse_json
from hackmatrix_rl.system.errors import ConfigError, shortened

_LEAVE_SECONDS = 5.0
"""Seconds that an app may take to exit after its input is closed."""

_MOST_MOVES = 200
"""Most moves that a person makes before an answer arrives."""


class AppError(ConfigError):
    """The app exited, timed out, or broke the protocol."""


class App:
    """An app as a process that answers one request at a time. Use it as a context manager.

    At the end of the context, the app and its child processes are killed, except those that started
    a session.

    Args:
        command: the app and its arguments.
        patience: timeout of an answer in seconds.
        person: whether a person plays in the app's window. The app's unsolicited answers to the
            person's steps are kept for `next_move`.

    Raises:
        AppError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, patience: float, person: bool = False) -> None:
        self._name = Path(command[0]).name
        self._patience = patience
        self._person = person
        self._moves: deque[Json] = deque()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # so `__exit__` can end its children, too
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise AppError(f"the app {command[0]} cannot be started: {why}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = Pipes(
            self._process.stdin,
            self._process.stdout,
            patience=patience,
            has_ended=lambda: self._process.poll() is not None,
        )

    def __enter__(self) -> "App":
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the app's input, waits, and kills its process group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVE_SECONDS)
        finally:
            # ProcessLookupError: the group is empty; PermissionError: it is dead, on macOS.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process.stdout.close()

    def reset(self) -> Json:
        """Starts a game; returns its first observation."""
        observation: Json = self.ask({"action": "reset"}, "observation")["observation"]
        self._moves.clear()  # of the game before
        return observation

    def valid_actions(self) -> np.ndarray:
        """The mask of the legal actions."""
        answer = self.ask({"action": "getValidActions"}, "validActions")
        return mask_of(Record(answer, "answer", ["validActions"]))

    def step(self, action: int) -> Json:
        """Plays an action; returns the answer."""
        return self.ask({"action": "step", "actionIndex": action}, "observation")

    @property
    def moved(self) -> bool:
        """Whether `next_move` returns at once."""
        return bool(self._moves)

    def next_move(self) -> Json:
        """The answer to the person's next step, without a timeout.

        Raises:
            AppError: the app exited or broke the protocol.
        """
        if self._moves:
            return self._moves.popleft()
        return self._next("a person's move", "reward", until=math.inf)

    def ask(self, request: Json, expected: str) -> Json:
        """The answer to a request; it must have the field `expected`.

        Raises:
            AppError: the app exited, timed out, or broke the protocol.
        """
        said = request["action"]
        try:
            self._pipes.write(json.dumps(request).encode() + b"\n")
        except TimeoutError as error:
            raise AppError(
                f"{self._name} has not read {said} within {self._patience:g} s"
            ) from error
        except OSError as error:
            raise AppError(self._ended(said)) from error
        return self._next(said, expected, until=time.monotonic() + self._patience)

    def _next(self, said: str, expected: str, *, until: float) -> Json:
        """The next answer, with the deadline `until`; a person's moves before it are kept."""
        while True:
            answer = self._answer(said, until)
            fields = answer if isinstance(answer, dict) else {}
            if "error" in fields:
                raise AppError(f"{self._name} refuses {said}: {shortened(str(fields['error']))}")
            if self._person and expected != "reward" and "reward" in fields:
                self._moves.append(fields)
                if len(self._moves) > _MOST_MOVES:
                    raise AppError(f"{self._name} answers {said} with {_MOST_MOVES} moves and more")
            elif expected in fields:
                return fields
            else:
                shown = shortened(repr(answer))
                raise AppError(f"{self._name} answers {said} without {expected}: {shown}")

    def _answer(self, said: str, until: float) -> Any:
        """The JSON value of the next line."""
        try:
            line = self._pipes.read(until)
        except TimeoutError as error:
            late = f"has not answered {said} within {self._patience:g} s"
            raise AppError(f"{self._name} {late}") from error
        except LongLineError as error:
            raise AppError(f"{self._name} answers {said} with {error}") from error
        if not line:
            raise AppError(self._ended(said))
        try:
            return parse_json(line)
        except ValueError as error:
            shown = shortened(repr(line.decode(errors="replace").strip()))
            raise AppError(f"{self._name} answers {said} with {shown}, which is no JSON") from error

    def _ended(self, said: str) -> str:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return f"{self._name} closed its output at {said}"
        return f"{self._name} ended at {said}, with exit status {status}"
