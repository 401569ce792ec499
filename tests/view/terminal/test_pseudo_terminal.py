"""`hackmatrix-rl play` as a person starts it: a real process on a pseudo-terminal."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest

from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.view.replays import Replay

pytestmark = pytest.mark.view

PATIENCE = 300.0  # seconds until a test gives up: compiling on a busy machine


class Terminal:
    """A process on a pseudo-terminal, and what its screen shows."""

    def __init__(self, *arguments, folder, columns=80, lines=24, **environment):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self.resize(columns, lines)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hackmatrix_rl", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            start_new_session=True,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "XDG_DATA_HOME": str(folder / "data"),
                "COLUMNS": "",
                "LINES": "",
                **environment,
            },
        )
        os.close(slave)

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def press(self, keys):
        os.write(self.master, keys.encode())

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, text):
        """Reads until the screen shows a text."""
        until = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < until, f"{text!r} does not come:\n{self.text}"
            assert self._read() or text in self.text, f"it ended without {text!r}:\n{self.text}"

    def press_until(self, key, text):
        """Presses a key again and again: input that cannot be decoded may take others along."""
        until = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < until, f"{text!r} does not come:\n{self.text}"
            self.press(key)
            while select.select([self.master], [], [], 1)[0]:
                assert self._read(), f"it ended without {text!r}:\n{self.text}"

    def end(self):
        """Reads to the end; returns the exit status."""
        while self._read():
            pass
        return self.process.wait(timeout=PATIENCE)

    def _read(self):
        """Reads what there is; false at the end of the process."""
        if not select.select([self.master], [], [], PATIENCE)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # so Linux reports that nobody has the terminal open
            return False
        self.stream.feed(data)
        return bool(data)


@pytest.fixture
def terminal(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(*arguments, **given):
            found = Terminal(*arguments, folder=tmp_path, **given)
            stack.callback(os.close, found.master)
            stack.callback(found.process.wait)
            stack.callback(_kill, found.process)
            return found

        yield start


def _kill(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_a_person_plays_resizes_saves_and_quits(terminal, tmp_path):
    shown = terminal("play", "--seed", "1", "--save", "game.json")
    shown.wait_for("ompiling")
    shown.wait_for("The game begins.")
    assert "@" in shown.text
    assert "EXIT" in shown.text
    shown.press("\x1b[A")
    shown.wait_for("1 ↑ UP  reward")
    os.write(shown.master, b"\xff\xfe")  # no text in any encoding of a terminal
    shown.press_until("p", "PUSH is not possible: you do not own it")
    shown.press("h")
    shown.wait_for("runner: ")
    shown.resize(60, 20)
    os.killpg(shown.process.pid, signal.SIGWINCH)
    shown.wait_for("The game needs 80 x 24 characters")
    shown.resize(80, 24)
    os.killpg(shown.process.pid, signal.SIGWINCH)
    shown.wait_for("1 ↑ UP  reward")
    shown.press("q")
    shown.wait_for("Leave this game?")
    shown.press("y")
    assert shown.end() == 0
    assert "Saved: game.json" in shown.text
    assert "1 moves, stage 1" in shown.text
    assert Replay.load(tmp_path / "game.json").actions == (Action.UP,)
    assert json.loads((tmp_path / "game.json").read_text())["player"] == "a person"
