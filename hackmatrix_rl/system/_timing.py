"""Calls with a time limit, and progress reports while the main thread is busy."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, act: Callable[[], T]) -> T:
    """Calls a function in a thread, and returns its result or raises its error.

    Raises a TimeoutError after `seconds`; the call then continues in a daemon thread. The timeout
    of a socket does not suffice: it limits a single read, so a slow server can delay a call
    indefinitely.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(act())
        except BaseException as error:  # raised again below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=work, name="within a deadline", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return results[0]


def in_background(act: Callable[[], object]) -> None:
    """Calls a function in a thread. Python's exit waits for it; see `leave_background`.

    Compilers end badly if the process takes their libraries away.
    """
    threading.Thread(target=act, name=_BACKGROUND).start()


def leave_background(status: int) -> None:
    """Exits at once if a thread of `in_background` still works, whose result nobody needs."""
    if any(thread.name == _BACKGROUND for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


_BACKGROUND = "in the background"


@contextmanager
def ticking(tick: Callable[[float], None], *, seconds: float = 1.0) -> Iterator[None]:
    """Calls `tick` with the elapsed seconds from another thread, while the block runs.

    `tick` must be quick and must not raise.
    """
    over = threading.Event()
    began = time.monotonic()

    def work() -> None:
        while not over.wait(seconds):
            tick(time.monotonic() - began)

    thread = threading.Thread(target=work, name="ticking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def compiling(
    say: Callable[[str], None],
    *,
    what: str = "",
    tick: Callable[[float], None] = lambda seconds: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[], None]]:
    """Reports that a program compiles, ticks every second, and reports the time it took.

    `what` names the program.

    Yields:
        A function to call when compilation ends, if that is before the end of the block.
    """
    say(f"compiling{what and f' {what}'} ... (this may take a minute, the first time)")
    began = clock()
    with ExitStack() as waiting:
        waiting.enter_context(ticking(tick))
        over = False

        def done() -> None:
            nonlocal over
            if not over:
                over = True
                waiting.close()
                say(f"compiled in {clock() - began:.1f} s")

        yield done
        done()
