"""The base class of the terminal's apps."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from rich.console import Console
from textual.app import App
from textual.binding import Binding
from textual.driver import Driver
from textual.events import Key
from textual.widget import Widget

from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view._names import Signs
from hackmatrix_rl.view.terminal._layout import GameView
from hackmatrix_rl.view.terminal._pages import Keys, help_screen, typed

Result = TypeVar("Result")


class Background:
    """A thread for compilation and the agent's thoughts; an error in it ends the app."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hackmatrix")
        self._failure: Exception | None = None
        self._jobs = 0
        self._last: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Whether a job is unfinished: its `then` has not been called yet."""
        return self._jobs > 0

    def do(self, work: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Calls `work` in the thread, and then `then` with its result in the app."""

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
        """Waits for the thread, because a compilation cannot be stopped, and raises its error."""
        if self._last is not None and not self._last.done():
            console.print("Waiting for the compiler ...")
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._failure is not None:
            raise self._failure


class TerminalApp(App[None]):
    """A game in a full-screen terminal, in the terminal's colours. Ctrl-C is the action `leave`."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012 - declared like this in Textual
        Binding("ctrl+c", "leave", priority=True, show=False),
        Binding("ctrl+q", "leave", priority=True, show=False),
    ]

    def __init__(self, signs: Signs, keys: Keys, *, complete: bool = False) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours and background
        self.animation_level = "none"
        self.signs = signs
        self.background = Background(self)
        self._own_keys = keys
        self._view = GameView(signs, complete=complete)

    def compose(self) -> Iterator[Widget]:
        yield self._view

    def on_key(self, event: Key) -> None:
        """Handles a key, unless another screen covers the game."""
        if len(self.screen_stack) == 1:
            self.pressed(typed(event))

    def pressed(self, said: str) -> None:
        """Handles the keys of all apps: quit, and the rules."""
        if said == "q":
            self.action_leave()
        elif said == "?":
            self.push_screen(help_screen(self.signs, self._own_keys))

    def action_leave(self) -> None:
        self.exit()

    def get_driver_class(self) -> type[Driver]:
        """The driver of this platform, which ignores input that is not valid text."""
        return _undisturbed(super().get_driver_class())


def _undisturbed(driver: type[Driver]) -> type[Driver]:
    """A driver that continues after input that cannot be decoded; Textual's ends the app."""

    class Undisturbed(driver):  # type: ignore[misc, valid-type]
        def run_input_thread(self) -> None:
            while True:
                try:
                    super().run_input_thread()
                    return
                except UnicodeDecodeError:
                    continue

    return Undisturbed
