"""What people are told while the main thread is busy, and while a program compiles."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def ticking(tick: Callable[[float], None], *, seconds: float = 1.0) -> Iterator[None]:
    """Calls a function every second while the block runs, from a thread of its own.

    Args:
        tick: told the seconds since the block began. It must be quick and must not raise.
        seconds: between two calls.
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
    """Says that a program compiles, ticks meanwhile, and says how long that took.

    Args:
        say: takes one line before and one line after.
        tick: told the seconds so far, every second, from another thread.
        clock: seconds since some moment.

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
