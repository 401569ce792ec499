"""Small symbols: coins, bolts, hearts, crosshairs.

Each function returns shapes around a center (x, y).
"""

import math
from dataclasses import replace

from hackmatrix_rl.view._drawing import Circle, Ink, Line, Polygon, Rect, Shape, Text

Point = tuple[float, float]


def fitted(text: str, size: float, width: float, *, bold: bool = False) -> float:
    """The largest font size up to `size` at which a text fits into `width`."""
    wide = sum(_letter_width(letter) for letter in text) * (1.12 if bold else 1.0)
    return min(size, width / max(1.0, wide))


def _letter_width(letter: str) -> float:
    """An upper bound of a letter's width at font size 1."""
    if letter in ",.:;'!|il ":
        return 0.34
    if letter in "MW@%m" or not letter.isascii():
        return 1.0
    return 0.7 if letter.isupper() else 0.64


def polygon(
    x: float, y: float, radius: float, outline: tuple[Point, ...], ink: Ink, *, ghost: bool = False
) -> Polygon:
    """An outline in units of `radius` around (x, y): filled, or dashed for a ghost."""
    points = tuple((x + radius * across, y + radius * down) for across, down in outline)
    if ghost:
        return Polygon(points, stroke=ink, stroke_width=1.5, dashed=True, opacity=0.75)
    return Polygon(points, fill=ink)


def bold(x: float, y: float, text: str, size: float, ink: Ink, opacity: float = 1.0) -> Text:
    """Bold text, centered at x."""
    return Text(x, y, text, size, ink, "middle", bold=True, opacity=opacity)


def hexagon(inner: float, outer: float, tall: float) -> tuple[Point, ...]:
    """An upright hexagon: its half widths at the edge and in the middle, and its half height."""
    right = ((inner, -tall), (outer, 0.0), (inner, tall))
    return ((-inner, -tall), *right, (-inner, tall), (-outer, 0.0))


_BOLT = ((0.25, -1.0), (-0.65, 0.15), (-0.08, 0.15), (-0.25, 1.0), (0.65, -0.2), (0.08, -0.2))


def _heart_point(turn: float) -> Point:
    """A point of the standard parametric heart curve."""
    down = 13 * math.cos(turn) - 5 * math.cos(2 * turn) - 2 * math.cos(3 * turn)
    return math.sin(turn) ** 3, -(down - math.cos(4 * turn)) / 16


_HEART = tuple(_heart_point(math.tau * step / 32) for step in range(32))
_PLUS = (
    *((-0.35, -1.0), (0.35, -1.0), (0.35, -0.35), (1.0, -0.35), (1.0, 0.35), (0.35, 0.35)),
    *((0.35, 1.0), (-0.35, 1.0), (-0.35, 0.35), (-1.0, 0.35), (-1.0, -0.35), (-0.35, -0.35)),
)
_UP = ((0.0, -0.8), (0.9, 0.7), (-0.9, 0.7))


def coin(x: float, y: float, radius: float, ink: Ink = "credits", *, ghost: bool = False) -> Shape:
    """A credit."""
    if ghost:
        return Circle(x, y, radius - 0.5, stroke=ink, dashed=True, opacity=0.75)
    return Circle(x, y, radius, fill=ink)


def bolt(x: float, y: float, radius: float, ink: Ink = "energy", *, ghost: bool = False) -> Shape:
    """A unit of energy."""
    return replace(polygon(x, y, radius, _BOLT, ink, ghost=ghost), stroke_width=1.0)


def heart(x: float, y: float, radius: float, *, full: bool) -> Shape:
    """A hit point of the player; an outline if it is lost."""
    shape = polygon(x, y, radius, _HEART, "hp")
    return shape if full else replace(shape, fill=None, stroke="muted", stroke_width=1.5)


def plus(x: float, y: float, radius: float, ink: Ink = "siphon") -> Shape:
    """The cross of a siphon."""
    return polygon(x, y, radius, _PLUS, ink)


def calls(x: float, y: float, count: int, size: float, ink: Ink) -> list[Shape]:
    """The number of transmissions that a block calls."""
    label = str(count)
    half = (size * 0.7 + 0.64 * size * len(label)) / 2
    return [
        polygon(x - half + size * 0.3, y - size * 0.36, size * 0.4, _UP, ink),
        Text(x + half, y, label, size, ink, anchor="end", bold=True),
    ]


def pickup(x: float, y: float, radius: float) -> list[Shape]:
    """A data siphon to pick up."""
    return [Circle(x, y, radius, stroke="siphon", stroke_width=2.5), plus(x, y, radius * 0.55)]


def door(x: float, y: float, size: float, *, named: bool) -> list[Shape]:
    """The exit: a door with an arrow, and the word if there is room."""
    thick = size / 11
    left, top = x - size * 0.42, y - size * 0.75
    arrow = ((x - size / 6, y - size * 0.2), (x, y - size * 0.5), (x + size / 6, y - size * 0.2))
    shapes: list[Shape] = [
        Rect(left, top, size * 0.84, size * 1.1, size / 9, stroke="exit", stroke_width=thick),
        Line(((x, y - size * 0.5), (x, y + size * 0.1)), "exit", thick),
        Line(arrow, "exit", thick),
    ]
    if named:
        shapes.append(bold(x, y + size * 0.85, "EXIT", size * 0.42, "exit"))
    return shapes


def cross_hair(x: float, y: float, radius: float) -> list[Shape]:
    """The target of a shot."""
    reach = radius / 6 + 1
    inner, outer = radius - reach, radius + reach
    arms = [
        ((x + across * inner, y + down * inner), (x + across * outer, y + down * outer))
        for across, down in ((1, 0), (-1, 0), (0, 1), (0, -1))
    ]
    # A light edge keeps it visible on blocks.
    return [
        Circle(x, y, radius, stroke="cell", stroke_width=4.0),
        *(Line(arm, "cell", 4.5) for arm in arms),
        Circle(x, y, radius, stroke="shot", stroke_width=1.6),
        *(Line(arm, "shot", 2.0) for arm in arms),
    ]


def counted(count: int, thing: str) -> str:
    """A number and what it counts: `1 point`, `2 points`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
