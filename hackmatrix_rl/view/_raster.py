"""A drawing as an image, an animation or a film."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hackmatrix_rl.view._drawing import Circle, Drawing, Line, Polygon, Rect, Shape, Text
from hackmatrix_rl.view._svg import DASH
from hackmatrix_rl.view._themes import Theme, find_theme

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

_FINER = 3
_CORNER = 6
_Points = Sequence[tuple[float, float]]


def image_of(drawing: Drawing, *, theme: str = "light", scale: float = 1.0) -> "Image":
    """The drawing as an RGB image, with `scale` image pixels for a pixel of the drawing.

    Raises:
        ConfigError: the theme is neither `light` nor `dark`.
    """
    from PIL import Image

    colours = find_theme(theme)
    size = _size(drawing, scale)
    image = Image.new("RGB", (size[0] * _FINER, size[1] * _FINER), colours["background"])
    brush = _Brush(image, colours, scale * _FINER)
    for shape in drawing.shapes:
        brush.paint(shape)
    return image.reduce(_FINER)


def save_png(
    drawing: Drawing, path: str | Path, *, theme: str = "light", scale: float = 1.0
) -> None:
    """Writes the image of `image_of` as a PNG file.

    Raises:
        ConfigError: the theme is neither `light` nor `dark`.
    """
    image_of(drawing, theme=theme, scale=scale).save(path, format="PNG", optimize=True)


def _size(drawing: Drawing, scale: float) -> tuple[int, int]:
    return max(1, round(drawing.width * scale)), max(1, round(drawing.height * scale))


class _Brush:
    """Paints shapes on an image that is `scale` times as large as the drawing."""

    def __init__(self, image: "Image", colours: Theme, scale: float) -> None:
        from PIL import ImageDraw

        self._image = image
        self._draw = ImageDraw.Draw(image)
        self._colours = colours
        self._scale = scale

    def paint(self, shape: Shape) -> None:
        """Paints one shape over what is there."""
        if shape.opacity == 1:
            self._paint(self._draw, shape, 0, 0)
            return
        from PIL import Image, ImageDraw

        box = self._box(shape)
        below = self._image.crop(box)
        above = below.copy()
        self._paint(ImageDraw.Draw(above), shape, box[0], box[1])
        self._image.paste(Image.blend(below, above, shape.opacity), box[:2])

    def _box(self, shape: Shape) -> tuple[int, int, int, int]:
        """The pixels that a shape may touch."""
        left, top, right, bottom = _bounds(shape)
        room = 0 if isinstance(shape, Text) else shape.stroke_width
        return (
            max(0, math.floor((left - room) * self._scale)),
            max(0, math.floor((top - room) * self._scale)),
            min(self._image.width, math.ceil((right + room) * self._scale) + 1),
            min(self._image.height, math.ceil((bottom + room) * self._scale) + 1),
        )

    def _paint(self, draw: "ImageDraw", shape: Shape, left: int, top: int) -> None:
        """Paints on a part of the image whose upper left corner is (left, top)."""
        scale = self._scale

        def at(x: float, y: float) -> tuple[float, float]:
            return x * scale - left, y * scale - top

        match shape:
            case Text():
                draw.text(
                    at(shape.x, shape.y),
                    shape.text,
                    self._colours[shape.ink],
                    _font(shape.bold, shape.size * scale),
                    anchor={"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor],
                )
            case Line():
                self._stroke(draw, shape, [at(*point) for point in shape.points])
            case _:
                outline = [at(*point) for point in _outline(shape)]
                if shape.fill is not None:
                    draw.polygon(outline, fill=self._colours[shape.fill])
                if shape.stroke is not None:
                    self._stroke(draw, shape, [*outline, outline[0]])

    def _stroke(
        self, draw: "ImageDraw", shape: Rect | Circle | Polygon | Line, points: _Points
    ) -> None:
        assert shape.stroke is not None
        colour = self._colours[shape.stroke]
        width = max(1, round(shape.stroke_width * self._scale))
        parts = (
            _dashes(points, *(each * self._scale for each in DASH)) if shape.dashed else [points]
        )
        for part in parts:
            draw.line(list(part), fill=colour, width=width, joint="curve")
        if not shape.dashed and points[0] == points[-1]:
            # `line` rounds the joints between its parts, but not where its ends meet.
            draw.circle(points[0], width / 2, fill=colour)


@cache
def _font(bold: bool, size: float) -> "FreeTypeFont":
    """The font that comes with matplotlib, so that all machines draw the same."""
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


def _bounds(shape: Shape) -> tuple[float, float, float, float]:
    """Left, top, right and bottom, without the stroke."""
    if isinstance(shape, Text):
        box = _font(shape.bold, shape.size).getbbox(shape.text)
        wide = box[2] - box[0] + shape.size
        return shape.x - wide, shape.y - shape.size, shape.x + wide, shape.y + shape.size
    points = shape.points if isinstance(shape, Line) else _outline(shape)
    across, down = zip(*points, strict=True)
    return min(across), min(down), max(across), max(down)


def _outline(shape: Rect | Circle | Polygon) -> _Points:
    """The corners of a shape, from where SVG begins its outline, clockwise."""
    if isinstance(shape, Polygon):
        return shape.points
    if isinstance(shape, Circle):
        return _arc(shape.x, shape.y, shape.radius, 0, 360)
    left, top = shape.x, shape.y
    right, bottom = left + shape.width, top + shape.height
    radius = min(shape.radius, shape.width / 2, shape.height / 2)
    if not radius:
        return [(left, top), (right, top), (right, bottom), (left, bottom)]
    return [
        *_arc(right - radius, top + radius, radius, 270, 360),
        *_arc(right - radius, bottom - radius, radius, 0, 90),
        *_arc(left + radius, bottom - radius, radius, 90, 180),
        *_arc(left + radius, top + radius, radius, 180, 270),
    ]


def _arc(x: float, y: float, radius: float, start: int, end: int) -> list[tuple[float, float]]:
    angles = (math.radians(angle) for angle in range(start, end + 1, _CORNER))
    return [(x + radius * math.cos(each), y + radius * math.sin(each)) for each in angles]


def _dashes(points: _Points, dash: float, gap: float) -> list[list[tuple[float, float]]]:
    """The dashes of a line, each as a line of its own."""
    parts: list[list[tuple[float, float]]] = []
    left, drawn = dash, True
    part = [points[0]]
    for (x, y), (end_x, end_y) in pairwise(points):
        length = math.hypot(end_x - x, end_y - y)
        done = 0.0
        while length - done > left:
            done += left
            place = (x + (end_x - x) * done / length, y + (end_y - y) * done / length)
            if drawn:
                parts.append([*part, place])
            drawn, left, part = not drawn, gap if drawn else dash, [place]
        left -= length - done
        part.append((end_x, end_y))
    return [*parts, part] if drawn and len(part) > 1 else parts
