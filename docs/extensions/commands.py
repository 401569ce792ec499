"""Examples in the helps of commands keep their columns on the site."""

from collections.abc import Sequence

from sphinx.application import Sphinx

BAR = "| "
"""What sphinx-click puts before each line of a paragraph that click must not wrap."""


def literal(lines: Sequence[str]) -> list[str]:
    """Such paragraphs as literal blocks."""
    made: list[str] = []
    inside = False
    for line in lines:
        if line.startswith(BAR) and not inside:
            made += ["::", ""]
        inside = line.startswith(BAR)
        made.append("   " + line.removeprefix(BAR) if inside else line)
    return made


def in_place(app: Sphinx, context: object, lines: list[str]) -> None:
    """Changes the lines of a command's description."""
    del app, context
    lines[:] = literal(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listens to sphinx-click, which must be loaded before."""
    app.connect("sphinx-click-process-description", in_place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
