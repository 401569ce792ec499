"""Calls with a time limit, and progress reports while the main thread is busy."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, act: Callable[[], T]) -> T:
    """Returns or raises what a call does, if it ends in time.

    The timeout of a socket limits a single read: a server that sends a byte now and then can
    delay such a call indefinitely. A late call continues in a thread that does not delay the exit.
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


@contextmanager
def ticking(tick: Callable[[float], None], *, seconds: float = 1.0) -> Iterator[None]:
    """Calls `tick` with the seconds so far from another thread while the block runs.

    The function must be quick and must not raise.
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
    tick: Callable[[float], None] = lambda seconds: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[], None]]:
    """Says that a program compiles, ticks every second meanwhile, and says how long that took.

    Yields:
        A function to call where compiling is over, if that is before the end of the block.
    """
    say("compiling ... (this may take a minute, the first time)")
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
