"""Games in separate processes: how these start."""

import multiprocessing
import multiprocessing.spawn
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FORKS = (
    "its processes are forks of this one, which uses JAX, and may hang; "
    'use another context: AsyncVectorEnv(..., context="forkserver"), or "spawn"'
)
_patching = threading.RLock()


def start_method() -> str:
    """How processes start that are no forks of this one: JAX does not work in those."""
    methods = multiprocessing.get_all_start_methods()
    return "forkserver" if "forkserver" in methods else "spawn"


def uninterrupted() -> Callable[[Any], Any]:
    """A wrapper for a game in a process of gymnasium: Ctrl-C does not end that process.

    A terminal sends Ctrl-C to all of them. The process that trains saves, and then closes them.
    """

    # Cloudpickle sends a local function by value: no process imports this package for it.
    def wrap(game: Any) -> Any:
        import multiprocessing
        import signal

        if multiprocessing.current_process().name.startswith("Worker<"):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return game

    return wrap


@contextmanager
def without_main() -> Iterator[None]:
    """Processes that start in the block do not import this one's main module.

    They need not: gymnasium sends them the functions that make games by cloudpickle, and with these
    what the main module defines. The import would run a script once more that has no
    `if __name__ == "__main__":`, and take the seconds in which the command line imports JAX.
    """
    with _patching:
        prepared = multiprocessing.spawn.get_preparation_data

        def prepare(name: str) -> dict[str, Any]:
            data: dict[str, Any] = prepared(name)
            return {key: value for key, value in data.items() if not key.startswith("init_main")}

        multiprocessing.spawn.get_preparation_data = prepare
        try:
            yield
        finally:
            multiprocessing.spawn.get_preparation_data = prepared


def check_not_forks(games: Any) -> None:
    """Raises a ValueError if the processes of a vector environment are forks of this one."""
    processes = getattr(games.unwrapped, "processes", ())
    fork = getattr(multiprocessing.context, "ForkProcess", ())
    if any(isinstance(each, fork) for each in processes):
        raise ValueError(FORKS)
