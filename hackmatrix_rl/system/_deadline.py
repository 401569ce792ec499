"""Calls into libraries that may never return."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, act: Callable[[], T]) -> T:
    """Returns or raises what a call does, if it ends in time.

    The timeout of a socket limits a single read: a server that sends a byte now and then can
    delay such a call for ever. A late call continues in a thread that does not delay the exit.

    Raises:
        TimeoutError: the call is late.
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
