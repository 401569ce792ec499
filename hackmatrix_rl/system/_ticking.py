"""What people are told while the main thread is busy, and while a program compiles."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def ticking(tick: Callable[[float], None], *, seconds: float = 1.0) -> Iterator[None]:
    """Calls a function, told the seconds so far, from another thread while the block runs.

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
