"""The terminal, for text that may repeat a name or what a file holds."""

from typing import Any

from rich.console import Console
from rich.text import Text

from hackmatrix_rl.system.errors import printable


class _PlainConsole(Console):
    """A console without markup: brackets and `:words:` in a text stay as they are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text, of a line or of a table's cell, as it is printed."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


def plain_console(**options: Any) -> Console:
    """A console of rich that prints any text as it is, and what is not printable as escapes.

    `options` are passed to `rich.console.Console`.
    """
    return _PlainConsole(**options)
