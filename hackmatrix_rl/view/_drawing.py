"""A picture as a list of shapes: what every kind of output is made from.

Coordinates are pixels from the upper left corner. An `Ink` is the name of a colour; a theme says
which colour that is.
"""

from dataclasses import dataclass
from typing import Literal

Ink = str


@dataclass(frozen=True)
class Rect:
    """A rectangle, filled, outlined or both."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 0.0
    fill: Ink | None = None
    stroke: Ink | None = None
    stroke_width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Circle:
    """A circle around (x, y), filled, outlined or both."""

    x: float
    y: float
    radius: float
    fill: Ink | None = None
    stroke: Ink | None = None
    stroke_width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Polygon:
    """A closed polygon, filled, outlined or both."""

    points: tuple[tuple[float, float], ...]
    fill: Ink | None = None
    stroke: Ink | None = None
    stroke_width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0


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


Shape = Rect | Circle | Polygon | Line | Text


@dataclass(frozen=True)
class Drawing:
    """A picture in pixels: its shapes, the lowest first, and what they show in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
