"""Renders a drawing to SVG."""

import base64
from collections.abc import Callable
from xml.sax.saxutils import escape, quoteattr

from hackmatrix_rl.view._drawing import (
    Circle,
    Drawing,
    Ink,
    Line,
    Pixels,
    Polygon,
    Rect,
    Shape,
    Text,
    find_theme,
)

FONT = "'DejaVu Sans',Verdana,Geneva,sans-serif"
"""The font of `_raster`, and fonts of the same width."""

DASH = (4, 3)
"""Lengths of a dash and a gap in pixels."""

_Colour = Callable[[Ink], str]


def svg_of(drawing: Drawing, theme: str = "light") -> str:
    """The drawing as an SVG file. The theme `auto` follows the reader's browser."""
    opening = f"{_opening(drawing)}<title>{escape(drawing.title)}</title>"
    if theme == "auto":
        return f"{opening}{_AUTO}{''.join(svg_fragments(drawing))}</svg>"
    colours = find_theme(theme, "auto")
    shapes = "".join(_element(shape, colours.__getitem__) for shape in drawing.shapes)
    return f"{opening}{shapes}</svg>"


def svg_fragments(drawing: Drawing) -> tuple[str, ...]:
    """One SVG element for each shape, with the colours `var(--ink-NAME)`.

    Equal shapes have equal text, so a page with many pictures can store each element once. The
    elements need an `<svg>` with the drawing's `viewBox`, the `font-family` `FONT` and
    `stroke-linejoin="round"`.
    """
    return tuple(_element(shape, lambda ink: f"var(--ink-{ink})") for shape in drawing.shapes)


def css_variables(theme: str) -> str:
    """The colours of a theme as CSS declarations: `--ink-text:#111827;` and so on."""
    return "".join(f"--ink-{ink}:{colour};" for ink, colour in find_theme(theme).items())


_AUTO = (
    f"<style>svg{{{css_variables('light')}}}"
    f"@media(prefers-color-scheme:dark){{svg{{{css_variables('dark')}}}}}</style>"
)


def _opening(drawing: Drawing) -> str:
    width, height = _number(drawing.width), _number(drawing.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(drawing.title)} '
        f'font-family="{FONT}" stroke-linejoin="round">'
    )


def _element(shape: Shape, colour: _Colour) -> str:
    match shape:
        case Rect():
            place = _attributes(x=shape.x, y=shape.y, width=shape.width, height=shape.height)
            corner = _attributes(rx=shape.radius) if shape.radius else ""
            return f"<rect{place}{corner}{_paint(shape, colour)}/>"
        case Circle():
            place = _attributes(cx=shape.x, cy=shape.y, r=shape.radius)
            return f"<circle{place}{_paint(shape, colour)}/>"
        case Polygon():
            return f'<polygon points="{_points(shape.points)}"{_paint(shape, colour)}/>'
        case Line():
            points = _points(shape.points)
            return f'<polyline points="{points}" fill="none"{_stroke(shape, colour)}/>'
        case Pixels():
            place = _attributes(x=shape.x, y=shape.y, width=shape.width, height=shape.height)
            content = base64.b64encode(shape.png).decode()
            return (
                f'<image{place} preserveAspectRatio="none" href="data:image/png;base64,{content}"/>'
            )
        case Text():
            return _text(shape, colour)


def _text(shape: Text, colour: _Colour) -> str:
    anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    bold = ' font-weight="700"' if shape.bold else ""
    place = _attributes(x=shape.x, y=shape.y, font_size=shape.size)
    fill, opacity = colour(shape.ink), _opacity(shape.opacity)
    return f'<text{place}{anchor}{bold} fill="{fill}"{opacity}>{escape(shape.text)}</text>'


def _paint(shape: Rect | Circle | Polygon, colour: _Colour) -> str:
    fill = "none" if shape.fill is None else colour(shape.fill)
    rest = _opacity(shape.opacity) if shape.stroke is None else _stroke(shape, colour)
    return f' fill="{fill}"{rest}'


def _stroke(shape: Rect | Circle | Polygon | Line, colour: _Colour) -> str:
    assert shape.stroke is not None
    paint = f' stroke="{colour(shape.stroke)}"'
    if shape.stroke_width != 1:
        paint += _attributes(stroke_width=shape.stroke_width)
    if shape.dashed:
        paint += f' stroke-dasharray="{DASH[0]} {DASH[1]}"'
    return paint + _opacity(shape.opacity)


def _opacity(opacity: float) -> str:
    return "" if opacity == 1 else _attributes(opacity=opacity)


def _attributes(**numbers: float) -> str:
    return "".join(
        f' {name.replace("_", "-")}="{_number(number)}"' for name, number in numbers.items()
    )


def _points(points: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(number: float) -> str:
    """At most two decimals, without trailing zeros: `1.50 -> "1.5"`."""
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
