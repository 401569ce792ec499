"""Renders drawings to PNG, GIF and MP4."""

import io
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hackmatrix_rl.system import open_regular, typed_path, write_whole
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view._drawing import (
    Circle,
    Drawing,
    Line,
    Pixels,
    Polygon,
    Rect,
    Shape,
    Text,
    Theme,
    find_theme,
)
from hackmatrix_rl.view._svg import DASH

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

_FINER = 3  # supersampling factor
_CORNER = 6  # degrees per segment of an arc
_COLOURS, _SAMPLES = 128, 6  # colours of a GIF, and frames that they are computed from
_CHUNK = 1 << 20
_LAST = 2.0  # extra seconds of the last frame
_Points = Sequence[tuple[float, float]]
Vector = Rect | Circle | Polygon | Line | Text
"""All shapes except `Pixels`."""


def image_of(drawing: Drawing, *, theme: str = "light", scale: float = 1.0) -> "Image":
    """The drawing as an RGB image, with `scale` image pixels per pixel of the drawing.

    Raises:
        ConfigError: the theme is neither `light` nor `dark`.
    """
    from PIL import Image

    colours = find_theme(theme)
    # `Pixels` need no antialiasing, and such pictures are large.
    finer = 1 if all(isinstance(shape, Pixels) for shape in drawing.shapes) else _FINER
    sides = [finer * max(1, round(side * scale)) for side in (drawing.width, drawing.height)]
    image = Image.new("RGB", (sides[0], sides[1]), colours["background"])
    brush = _Brush(image, colours, scale * finer)
    for shape in drawing.shapes:
        brush.paint(shape)
    return image.reduce(finer)


def save_png(
    drawing: Drawing, path: str | Path, *, theme: str = "light", scale: float = 1.0
) -> None:
    """Writes the image of `image_of` as a PNG file."""
    written = io.BytesIO()
    image_of(drawing, theme=theme, scale=scale).save(written, format="PNG", optimize=True)
    write_whole(typed_path(path), [written.getvalue()])


class _Brush:
    """Paints shapes on an image that is `scale` times as large as the drawing."""

    def __init__(self, image: "Image", colours: Theme, scale: float) -> None:
        from PIL import ImageDraw

        self._image = image
        self._draw = ImageDraw.Draw(image)
        self._colours = colours
        self._scale = scale

    def paint(self, shape: Shape) -> None:
        if isinstance(shape, Pixels):
            self._paste(shape)
            return
        if shape.opacity == 1:
            self._paint(self._draw, shape, 0, 0)
            return
        from PIL import Image, ImageDraw

        box = self._box(shape)
        below = self._image.crop(box)
        above = below.copy()
        self._paint(ImageDraw.Draw(above), shape, box[0], box[1])
        self._image.paste(Image.blend(below, above, shape.opacity), box[:2])

    def _paste(self, shape: Pixels) -> None:
        from PIL import Image

        place, side = (
            (round(across * self._scale), round(down * self._scale))
            for across, down in ((shape.x, shape.y), (shape.width, shape.height))
        )
        with Image.open(io.BytesIO(shape.png), formats=["PNG"]) as picture:
            self._image.paste(picture.convert("RGB").resize(side, Image.Resampling.BOX), place)

    def _box(self, shape: Vector) -> tuple[int, int, int, int]:
        left, top, right, bottom = _bounds(shape)
        room = 0 if isinstance(shape, Text) else shape.stroke_width
        return (
            max(0, math.floor((left - room) * self._scale)),
            max(0, math.floor((top - room) * self._scale)),
            min(self._image.width, math.ceil((right + room) * self._scale) + 1),
            min(self._image.height, math.ceil((bottom + room) * self._scale) + 1),
        )

    def _paint(self, draw: "ImageDraw", shape: Vector, left: int, top: int) -> None:
        """Paints on a crop of the image whose upper left corner is (left, top)."""
        scale = self._scale

        def at(x: float, y: float) -> tuple[float, float]:
            return x * scale - left, y * scale - top

        match shape:
            case Text():
                draw.text(
                    at(shape.x, shape.y),
                    shape.text,
                    self._colours[shape.ink],
                    font(shape.bold, shape.size * scale),
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
            # `line` rounds its joints, but not the one where its ends meet.
            draw.circle(points[0], width / 2, fill=colour)


@cache
def font(bold: bool, size: float) -> "FreeTypeFont":
    """The font that ships with matplotlib: every machine draws the same picture."""
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


def _bounds(shape: Vector) -> tuple[float, float, float, float]:
    """Left, top, right and bottom, excluding the stroke."""
    if isinstance(shape, Text):
        box = font(shape.bold, shape.size).getbbox(shape.text)
        wide = box[2] - box[0] + shape.size
        return shape.x - wide, shape.y - shape.size, shape.x + wide, shape.y + shape.size
    points = shape.points if isinstance(shape, Line) else _outline(shape)
    across, down = zip(*points, strict=True)
    return min(across), min(down), max(across), max(down)


def _outline(shape: Rect | Circle | Polygon) -> _Points:
    """The corners of a shape, clockwise from the start of its outline in SVG."""
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


def save_gif(
    drawings: Sequence[Drawing],
    path: str | Path,
    *,
    theme: str = "light",
    seconds_per_frame: float = 0.5,
    scale: float = 1.0,
) -> None:
    """Writes drawings of one size as a looping GIF. The last frame lasts 2 s longer.

    `seconds_per_frame` is rounded to 0.01 s. `scale` is the number of image pixels per pixel of a
    drawing; the theme is `light` or `dark`.
    """
    from PIL import Image

    _check(drawings, seconds_per_frame)
    palette = _palette(drawings, theme, scale)
    images = (
        image.quantize(palette=palette, dither=Image.Dither.NONE)
        for image in _images(drawings, theme, scale)
    )
    # A GIF counts hundredths of a second, and browsers replace 0 or 1 by a longer time.
    steady = 10 * max(2, round(100 * seconds_per_frame))
    written = io.BytesIO()
    next(images).save(
        written,
        format="GIF",
        save_all=True,
        append_images=images,
        duration=[steady] * (len(drawings) - 1) + [steady + round(1000 * _LAST)],
        loop=0,
        optimize=False,
    )
    write_whole(typed_path(path), [written.getvalue()])


def save_mp4(
    drawings: Sequence[Drawing],
    path: str | Path,
    *,
    theme: str = "light",
    seconds_per_frame: float = 0.5,
    scale: float = 1.0,
) -> None:
    """Writes drawings as an MP4 film; see `save_gif` for the arguments."""
    path = typed_path(path)
    program = check_ffmpeg(path)
    _check(drawings, seconds_per_frame)
    still = 1 + round(_LAST / seconds_per_frame)
    width, height = image_of(drawings[0], theme=theme, scale=scale).size
    command = [
        *(program, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"),
        *("-s", f"{width}x{height}", "-framerate", f"{1 / seconds_per_frame:g}", "-i", "-"),
        # Players need even sizes, this pixel format, and several frames per second.
        *("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-r", "20"),
        *("-movflags", "+faststart", "-fflags", "+bitexact", "-flags:v", "+bitexact"),
        *("-f", "mp4"),
    ]
    images = _images(drawings, theme, scale)
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder, "film")
        _pipe([*command, f"file:{film}"], images, [1] * (len(drawings) - 1) + [still], path)
        with open_regular(film) as file:
            write_whole(path, iter(lambda: file.read(_CHUNK), b""))


def check_ffmpeg(name: str) -> str:
    """The path of ffmpeg; an error names the flag or file `name`, which needs it."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise ConfigError(f"{name} needs ffmpeg on the PATH: install ffmpeg, or use --gif")
    return program


def _pipe(
    command: list[str], images: Iterator["Image"], times: list[int], path: str | Path
) -> None:
    """Runs ffmpeg on the pixels of images, each repeated `times` times."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            for image, count in zip(images, times, strict=True):
                for _ in range(count):
                    process.stdin.write(image.tobytes())
            process.stdin.close()
        except BrokenPipeError:
            pass  # ffmpeg has exited; its error is read below
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        reason = said.splitlines()[-1] if said else f"exit status {process.returncode}"
        raise ConfigError(f"ffmpeg cannot write {path}: {reason}")


def _images(drawings: Sequence[Drawing], theme: str, scale: float) -> Iterator["Image"]:
    return (image_of(drawing, theme=theme, scale=scale) for drawing in drawings)


def _check(drawings: Sequence[Drawing], seconds_per_frame: float) -> None:
    if not drawings:
        raise ConfigError("there is no picture to save: give at least one")
    if seconds_per_frame <= 0:
        raise ConfigError(f"seconds_per_frame is {seconds_per_frame:g}: give more than 0")
    sizes = {(drawing.width, drawing.height) for drawing in drawings}
    if len(sizes) > 1:
        raise ValueError(f"drawings have different sizes: {sorted(sizes)}")


def _palette(drawings: Sequence[Drawing], theme: str, scale: float) -> "Image":
    """One palette for all frames, computed from some of them."""
    from PIL import Image

    step = max(1, -(-len(drawings) // _SAMPLES))
    images = list(_images(drawings[::step], theme, scale))
    width, height = images[0].size
    sheet = Image.new("RGB", (width, height * len(images)))
    for number, image in enumerate(images):
        sheet.paste(image, (0, number * height))
    return sheet.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT)
