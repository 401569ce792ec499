"""Plots of matplotlib as SVG in the colours of a page."""

import dataclasses
import io
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackmatrix_rl.system import write_whole
from hackmatrix_rl.system.errors import printable
from hackmatrix_rl.view._document import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Inks:
    """The colours of a plot; a page replaces each by its CSS variable of the same name."""

    text: str = "#1f2328"
    grid: str = "#d5d9de"
    line: str = "#1763b6"
    random: str = "#8a6d00"
    runner: str = "#a0366b"
    points: str = "#157a4a"
    violet: str = "#6f42c1"
    orange: str = "#b45309"


INKS = Inks()
_COLUMNS = {3: 17, 2: 28}  # columns of a legend: most characters of a label


def figures(pictures: "Mapping[str, Callable[[Axes], None]]") -> str:
    """Plots by label as HTML; each function draws on its axes."""
    drawn = "".join(
        f'<figure role="img" aria-label="{text(label)}"><figcaption class="dim">{text(label)}'
        f"</figcaption>{_svg(draw, label)}</figure>"
        for label, draw in pictures.items()
    )
    return f'<div class="curves">{drawn}</div>'


def literal(name: str) -> str:
    """A name for matplotlib without TeX formulas, which is also shown in a legend."""
    shown = printable(name).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown  # a legend omits names with "_"


def style(axes: "Axes", x: str = "", y: str = "", *, whole: Collection[str] = ()) -> None:
    """Sets labels, grid and legend; `whole` axes have integer ticks."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(literal(x), color=INKS.text)
    axes.set_ylabel(literal(y), color=INKS.text)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer="x" in whole))
    if "y" in whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(colors=INKS.text)
    axes.grid(color=INKS.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INKS.text)
    labels = axes.get_legend_handles_labels()[1]
    if len(labels) > 1:
        # Above the axes; long labels get wider columns.
        longest = max(map(len, labels))
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=next((n for n, most in _COLUMNS.items() if longest <= most), 1),
            fontsize="small",
            frameon=False,
            labelcolor=INKS.text,
        )


def save_figure(figure: "Figure", path: Path) -> None:
    """Writes a figure to a file; the suffix determines the format."""
    write_whole(path, [_drawn(figure, format=path.suffix.removeprefix("."), dpi=120)])


def _drawn(figure: "Figure", **how: Any) -> bytes:
    written = io.BytesIO()
    with warnings.catch_warnings():
        # A character that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(written, **how)
    return written.getvalue()


def _svg(draw: "Callable[[Axes], None]", salt: str) -> str:
    import matplotlib  # slow to import, and few pages need it
    from matplotlib.figure import Figure

    # Text is not converted to paths, and equal data give equal files.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        draw(figure.subplots())
        svg = _drawn(figure, format="svg", transparent=True, metadata={"Date": None}).decode()
    svg = svg[svg.index("<svg") :]
    for name, ink in dataclasses.asdict(INKS).items():
        svg = svg.replace(ink, f"var(--{name})")
    return svg
