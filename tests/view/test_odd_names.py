"""Names that mean something to what shows them: drawn, printed and advised as they are."""

import html
import io
import os
import subprocess
from pathlib import Path

import pytest
from rich.table import Table

from hackmatrix_rl.system.errors import in_shell, printable
from hackmatrix_rl.view import figures, literal, plain_console, style

pytestmark = pytest.mark.view

ODD = (
    *("a$x_$b", "$", "a\\$b$", "_hidden", "{x}^2", "日本"),  # to matplotlib
    *("a[/b]", "[red]x", ":smile:", "back\\slash", "[link=x]"),  # to rich
    *("a b", "it's", "-x", "~", "#x", "!x", "$(x)", "`x`", "a;b&c", '"', "*?"),  # to a shell
    *("<b>&amp;", "\u202eabc", "\x1b[2J", "\ud800"),  # to a page, a terminal, nothing at all
)


@pytest.mark.parametrize("name", ODD)
def test_a_terminal_shows_a_name_as_it_is(name):
    shown = io.StringIO()
    console = plain_console(file=shown, width=200, force_terminal=True, color_system=None)
    table = Table(name, title=name, caption=name)
    table.add_row(name)
    console.print(name)
    console.print(table)
    said = shown.getvalue()
    assert said.count(printable(name)) >= 5
    assert all(line.isprintable() for line in said.splitlines())


def test_a_plot_shows_names_as_they_are():
    def draw(axes):
        for place, name in enumerate(ODD):
            axes.plot([0, 1], [place, 1], label=literal(name))
            axes.annotate(literal(name), (0, place))
        style(axes, "".join(ODD), ODD[0])
        axes.set_yticks(range(len(ODD)), list(map(literal, ODD)))

    drawn = html.unescape(figures({"": draw}))
    for name in ODD:
        assert drawn.count(f"{printable(name)}</text>") >= 3, name


def test_a_shell_reads_the_words_that_were_written():
    words = [*ODD[:-1], Path("-x"), Path("a b/$c"), os.fsdecode(b"\xff")]
    line = in_shell("printf", r"%s\0", *words)
    assert line.isprintable()
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    read = said.decode(errors="surrogateescape").split("\0")[:-1]
    assert read == [*ODD[:-1], "./-x", "a b/$c", os.fsdecode(b"\xff")]
