"""A rich console for untrusted text."""

from typing import Any

from rich.console import Console
from rich.text import Text

from hackmatrix_rl.system.errors import printable


class _PlainConsole(Console):
    """A console without markup: brackets and `:words:` are printed unchanged."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Converts a line, or the cell of a table, with unprintable characters escaped."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


def plain_console(**options: Any) -> Console:
    """A rich console that prints text without markup and escapes unprintable characters.

    `options` are passed to `rich.console.Console`.
    """
    return _PlainConsole(**options)
