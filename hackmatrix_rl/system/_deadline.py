"""Calls into libraries that may never come back."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, act: Callable[[], T]) -> T:
    """What a call returns, or raises, if it does so in time.

    A timeout of a socket is for each of its reads: a server that sends a byte now and then holds
    such a call for ever. One that is late is left to itself, in a thread that holds up no exit.

    Args:
        seconds: for the whole of it.
        act: the call.

    Raises:
        TimeoutError: if it is late.
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
