"""Pictures drawn by other packages, as arrays of pixels."""

import base64
import io
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np

_SCALE = 2  # pixels per SVG unit


def figure_pixels(make: Callable[[], Any]) -> np.ndarray:
    """Renders a matplotlib figure to pixels `[height, width, 3]` and closes it.

    `make` returns an artist of the figure, or a tuple whose first item is the figure.
    """
    import matplotlib

    with matplotlib.rc_context({"backend": "Agg"}):
        from matplotlib import pyplot

        made = make()
        figure = made[0] if isinstance(made, tuple) else made.figure
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy()
        pyplot.close(figure)
    return pixels


def svg_pixels(svg: str) -> np.ndarray:
    """Renders an SVG of pgx to pixels `[height, width, 3]`.

    Draws rectangles, circles, lines and texts; skips other elements. The SVGs of pgx's MinAtar
    games embed one PNG, which is returned instead.
    """
    from PIL import Image, ImageDraw

    root = ElementTree.fromstring(svg)
    for element in root.iter(_SVG + "image"):
        content = element.get(_LINK) or ""
        packed = base64.b64decode(content.partition("base64,")[2])
        with Image.open(io.BytesIO(packed), formats=["PNG"]) as opened:
            ground = Image.new("RGBA", opened.size, "white")
            return np.asarray(Image.alpha_composite(ground, opened.convert("RGBA")).convert("RGB"))
    width, height = (round(_number(root.get(side)) * _SCALE) for side in ("width", "height"))
    image = Image.new("RGB", (width, height), "white")
    _paint(ImageDraw.Draw(image), root, 0.0, 0.0)
    return np.asarray(image)


_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


def _paint(draw: Any, element: ElementTree.Element, left: float, top: float) -> None:
    """Draws an element and its children, translated by (left, top)."""
    if moved := re.search(r"translate\(([-\d.]+)[, ]+([-\d.]+)\)", element.get("transform", "")):
        left, top = left + float(moved[1]), top + float(moved[2])

    def at(across: str, down: str) -> tuple[float, float]:
        x, y = _number(element.get(across)), _number(element.get(down))
        return (left + x) * _SCALE, (top + y) * _SCALE

    fill, stroke = (_colour(element.get(name)) for name in ("fill", "stroke"))
    width = max(1, round(_number(element.get("stroke-width", "1")) * _SCALE))
    match element.tag.removeprefix(_SVG):
        case "rect":
            x, y = at("x", "y")
            right = x + _number(element.get("width")) * _SCALE
            bottom = y + _number(element.get("height")) * _SCALE
            corner = _number(element.get("rx")) * _SCALE
            draw.rounded_rectangle((x, y, right, bottom), corner, fill, stroke, width)
        case "circle":
            x, y = at("cx", "cy")
            radius = _number(element.get("r")) * _SCALE
            draw.circle((x, y), radius, fill, stroke, width)
        case "line":
            draw.line((*at("x1", "y1"), *at("x2", "y2")), stroke, width)
        case "text" if element.text:
            from hackmatrix_rl.view import font

            size = _number(element.get("font-size", "16")) * _SCALE
            draw.text(at("x", "y"), element.text, fill or "black", font(True, size), anchor="ls")
    for child in element:
        _paint(draw, child, left, top)


def _colour(name: str | None) -> str | None:
    return None if name in (None, "none") else name


def _number(text: str | None) -> float:
    found = re.match(r"[-\d.]+", text or "0")
    return float(found[0]) if found else 0.0
