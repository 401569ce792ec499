"""What the terminal's apps have in common."""

from textual.app import App
from textual.binding import Binding
from textual.driver import Driver

from hackmatrix_rl.view._signs import Signs
from hackmatrix_rl.view.terminal._background import Background


class TerminalApp(App[None]):
    """A game on the whole terminal, in its own colours. Ctrl-C is the action `leave`."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012 - so it is in Textual
        Binding("ctrl+c", "leave", priority=True, show=False),
        Binding("ctrl+q", "leave", priority=True, show=False),
    ]

    def __init__(self, signs: Signs) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours and background
        self.animation_level = "none"
        self.signs = signs
        self.background = Background(self)

    def get_driver_class(self) -> type[Driver]:
        """The driver of this platform, which goes on after bytes that are no text."""
        return _undisturbed(super().get_driver_class())


def _undisturbed(driver: type[Driver]) -> type[Driver]:
    """A driver that reads on after an input that cannot be decoded; Textual's ends the app."""

    class Undisturbed(driver):  # type: ignore[misc, valid-type]
        def run_input_thread(self) -> None:
            while True:
                try:
                    super().run_input_thread()
                    return
                except UnicodeDecodeError:
                    continue

    return Undisturbed
