"""A picture as a list of shapes, the source of every output format, and the colour themes.

Coordinates are pixels from the upper left corner. An `Ink` is the name of a colour, which a theme
maps to its value. Enemies have warm colours, the player is blue, blocks are grey. Shapes and
letters repeat everything that a colour shows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hackmatrix_rl.system.errors import ConfigError

Ink = str

Theme = dict[Ink, str]
"""The colour of each ink as #rrggbb."""
_COLOURS = {  # light theme, dark theme
    "background": ("#ffffff", "#0d1117"),
    "board": ("#cfd6e3", "#05070b"),
    "cell": ("#f7f9fc", "#1a2130"),
    "cell_siphoned": ("#e3e0f2", "#2a2547"),
    "rule": ("#8a93a5", "#6b7588"),
    "text": ("#111827", "#f1f5f9"),
    "muted": ("#576175", "#a3aec0"),
    "player": ("#0b5bd3", "#4cc2ff"),
    "on_player": ("#ffffff", "#04202f"),
    "data": ("#64708a", "#8592ab"),
    "on_data": ("#ffffff", "#0b0f18"),
    "program": ("#1f2a44", "#dbe4f3"),
    "on_program": ("#ffffff", "#10172a"),
    "question": ("#576175", "#a3aec0"),
    "virus": ("#c2410c", "#ff9d4d"),
    "daemon": ("#9f1239", "#ff7a85"),
    "glitch": ("#a21caf", "#f0a6fb"),
    "cryptog": ("#5b21b6", "#bba6ff"),
    "on_enemy": ("#ffffff", "#1b0d1c"),
    "transmission": ("#8a3b12", "#ffb98a"),
    "credits": ("#96660a", "#f5c542"),
    "energy": ("#0e7490", "#3edcf5"),
    "siphon": ("#0f766e", "#2dd4bf"),
    "exit": ("#15803d", "#5be08a"),
    "hp": ("#d61f3a", "#ff5d73"),
    "danger": ("#d3122a", "#ff4d5e"),
    "on_danger": ("#ffffff", "#1c0206"),
    "shot": ("#0b5bd3", "#4cc2ff"),
}
THEMES: dict[str, Theme] = {
    name: {ink: both[number] for ink, both in _COLOURS.items()}
    for number, name in enumerate(("light", "dark"))
}
"""The themes by name."""
_WIDTH = 960.0
_FOOT = 34.0


@dataclass(frozen=True, kw_only=True)
class _Outlined:
    """The fill and the outline of a shape."""

    fill: Ink | None = None
    stroke: Ink | None = None
    stroke_width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Rect(_Outlined):
    x: float
    y: float
    width: float
    height: float
    radius: float = 0.0


@dataclass(frozen=True)
class Circle(_Outlined):
    """A circle around (x, y)."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Polygon(_Outlined):
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Line:
    """A line through some points."""

    points: tuple[tuple[float, float], ...]
    stroke: Ink
    stroke_width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Text:
    """A line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    size: float
    ink: Ink
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Pixels:
    """A PNG image, stretched over a rectangle."""

    x: float
    y: float
    width: float
    height: float
    png: bytes  #: The content of a PNG file.
    opacity: float = 1.0


Shape = Rect | Circle | Polygon | Line | Text | Pixels


@dataclass(frozen=True)
class Drawing:
    """A picture of a size in pixels: its shapes from bottom to top, and a description in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str


def find_theme(name: str, *more: str) -> Theme:
    """The theme of a name; a ConfigError lists all names and `more`."""
    if name not in THEMES:
        raise ConfigError(f"theme {name!r} does not exist; there are {', '.join((*THEMES, *more))}")
    return THEMES[name]


def grid(drawings: Sequence[Drawing], *, more: int = 0) -> Drawing:
    """Drawings of one size in a grid at most 960 pixels wide; `more` counts omitted drawings."""
    columns = math.ceil(math.sqrt(len(drawings)))
    rows = math.ceil(len(drawings) / columns)
    scale = min(1.0, _WIDTH / (columns * drawings[0].width))
    width, height = drawings[0].width * scale, drawings[0].height * scale
    foot = _FOOT if more else 0.0
    shapes: list[Shape] = [Rect(0, 0, columns * width, rows * height + foot, fill="background")]
    for number, drawing in enumerate(drawings):
        row, column = divmod(number, columns)
        shapes += (_placed(each, column * width, row * height, scale) for each in drawing.shapes)
    if more:
        line = f"and {more:,} more"
        shapes.append(Text(columns * width / 2, rows * height + 20, line, 16, "muted", "middle"))
    title = f"{len(drawings) + more:,} games of HackMatrix"
    return Drawing(columns * width, rows * height + foot, tuple(shapes), title)


def _placed(shape: Shape, x: float, y: float, scale: float) -> Shape:
    """A shape, scaled and then translated."""
    if isinstance(shape, Text):
        return replace(shape, x=x + shape.x * scale, y=y + shape.y * scale, size=shape.size * scale)
    if isinstance(shape, Pixels):
        wide, high = shape.width * scale, shape.height * scale
        return replace(shape, x=x + shape.x * scale, y=y + shape.y * scale, width=wide, height=high)
    shape = replace(shape, stroke_width=shape.stroke_width * scale)
    if isinstance(shape, Polygon | Line):
        points = tuple((x + across * scale, y + down * scale) for across, down in shape.points)
        return replace(shape, points=points)
    left, top, radius = x + shape.x * scale, y + shape.y * scale, shape.radius * scale
    if isinstance(shape, Circle):
        return replace(shape, x=left, y=top, radius=radius)
    width, height = shape.width * scale, shape.height * scale
    return replace(shape, x=left, y=top, width=width, height=height, radius=radius)
