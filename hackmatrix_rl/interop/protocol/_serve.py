"""A `Server` on standard input and output."""

import json
from collections.abc import Callable, Iterator
from typing import BinaryIO

from hackmatrix_rl.interop.protocol._server import Server
from hackmatrix_rl.system.errors import shortened

LONGEST = 2**20
"""Bytes of a line that is read; a longer one is no request."""


def serve(
    server: Server,
    requests: BinaryIO,
    answers: BinaryIO,
    *,
    say: Callable[[str], None],
    debug: bool = False,
    info: bool = False,
) -> None:
    """Answers each line with a line until the requests end, or an answer cannot be written.

    `say` takes all other messages: that something compiles, each request if `debug`, and the result
    of each step if `info`.
    """
    for line in _lines(requests):
        if debug:
            say(shortened(line.decode(errors="replace").strip()))
        answer = server.answer_line(line)
        if info and "info" in answer:
            say(json.dumps({name: answer[name] for name in ("reward", "done", "info")}))
        answers.write(json.dumps(answer).encode() + b"\n")
        # What the next requests need compiles while the client thinks.
        server.engine.warm_up(say)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; one that is too long becomes an empty line."""
    while line := file.readline(LONGEST):
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST)
        yield b""
