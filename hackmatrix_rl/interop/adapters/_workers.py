"""How gymnasium's worker processes start."""

import multiprocessing
import multiprocessing.spawn
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FORKS = (
    "its processes are forks of this one, which uses JAX: they may hang; "
    'use another context: AsyncVectorEnv(..., context="forkserver"), or "spawn"'
)
_patching = threading.RLock()


def start_method() -> str:
    """A start method that does not fork this process: JAX does not work in a fork."""
    methods = multiprocessing.get_all_start_methods()
    return "forkserver" if "forkserver" in methods else "spawn"


def uninterrupted() -> Callable[[Any], Any]:
    """A wrapper that makes gymnasium's worker processes ignore Ctrl-C.

    A terminal sends Ctrl-C to every process. The training process saves, and then closes the
    workers.
    """

    # Cloudpickle sends a local function by value, so a worker does not import this package.
    def wrap(game: Any) -> Any:
        import multiprocessing
        import signal

        if multiprocessing.current_process().name.startswith("Worker<"):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return game

    return wrap


@contextmanager
def without_main() -> Iterator[None]:
    """Processes that start in this context do not import the main module.

    They do not need it: gymnasium sends the functions that make games by cloudpickle, which
    includes what they use of the main module. The import would rerun a script without
    `if __name__ == "__main__":`, and would cost the seconds that importing JAX takes.
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
    """Raises a ValueError if a vector environment runs in forks of this process."""
    processes = getattr(games.unwrapped, "processes", ())
    fork = getattr(multiprocessing.context, "ForkProcess", ())
    if any(isinstance(each, fork) for each in processes):
        raise ValueError(FORKS)
