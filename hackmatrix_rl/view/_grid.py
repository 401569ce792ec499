"""Several drawings as one."""

import math
from collections.abc import Sequence
from dataclasses import replace

from hackmatrix_rl.view._drawing import Circle, Drawing, Rect, Shape, Text

_WIDTH = 960.0
_FOOT = 34.0


def grid(drawings: Sequence[Drawing], *, more: int = 0) -> Drawing:
    """Drawings of one size in rows at most 960 pixels wide, and a line for those left out."""
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
    """A shape made smaller and moved."""
    if isinstance(shape, Text):
        return replace(shape, x=x + shape.x * scale, y=y + shape.y * scale, size=shape.size * scale)
    stroke = shape.stroke_width * scale
    if isinstance(shape, Rect):
        return replace(
            shape,
            x=x + shape.x * scale,
            y=y + shape.y * scale,
            width=shape.width * scale,
            height=shape.height * scale,
            radius=shape.radius * scale,
            stroke_width=stroke,
        )
    if isinstance(shape, Circle):
        return replace(
            shape,
            x=x + shape.x * scale,
            y=y + shape.y * scale,
            radius=shape.radius * scale,
            stroke_width=stroke,
        )
    points = tuple((x + across * scale, y + down * scale) for across, down in shape.points)
    return replace(shape, points=points, stroke_width=stroke)
