"""Long work beside a screen that goes on answering."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from rich.console import Console
from textual.app import App

from hackmatrix_rl.errors import ConfigError

Result = TypeVar("Result")


class Background:
    """One thread for compiling and thinking, so that the screen goes on; an error ends the app."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hackmatrix")
        self._failure: Exception | None = None
        self._jobs = 0
        self._last: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Whether something is under way: its `then` has not been called yet."""
        return self._jobs > 0

    def do(self, work: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Does some work in the thread, and then something with its result in the app."""

        async def wait() -> None:
            try:
                result = await asyncio.wrap_future(job)
            except (ConfigError, OSError) as error:
                self._failure = error
                self._app.exit()
                return
            finally:
                self._jobs -= 1
            then(result)

        self._last = job = self._pool.submit(work)
        self._jobs += 1
        self._app.run_worker(wait(), group="background")

    def close(self, console: Console) -> None:
        """Waits for the thread, as a compiler cannot be stopped, and raises its error."""
        if self._last is not None and not self._last.done():
            console.print("The compiler finishes its work first ...")
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._failure is not None:
            raise self._failure
