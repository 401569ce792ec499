"""Something that happens every second while the main thread is busy."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
