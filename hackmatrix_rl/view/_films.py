"""Drawings one after another: a GIF, or a film through ffmpeg."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.view._drawing import Drawing
from hackmatrix_rl.view._raster import image_of

if TYPE_CHECKING:
    from PIL.Image import Image

_LAST = 2.0
"""Seconds for which the last picture stays longer than the others."""

_COLOURS = 128
_SAMPLES = 6


def save_gif(
    drawings: Sequence[Drawing],
    path: str | Path,
    *,
    theme: str = "light",
    seconds_per_frame: float = 0.5,
    scale: float = 1.0,
) -> None:
    """Writes drawings of one size as an animation that repeats. The last one stays 2 s longer.

    Args:
        drawings: at least one.
        path: the file.
        theme: `light` or `dark`.
        seconds_per_frame: for which a drawing stays, in steps of 0.01.
        scale: image pixels for a pixel of a drawing.

    Raises:
        ConfigError: there is no such theme, or no drawing.
        ValueError: the drawings differ in size.
    """
    from PIL import Image

    _check(drawings, seconds_per_frame)
    palette = _palette(drawings, theme, scale)
    images = (
        image.quantize(palette=palette, dither=Image.Dither.NONE)
        for image in _images(drawings, theme, scale)
    )
    # A GIF counts hundredths of a second, and 0 or 1 of them play slowly in browsers.
    steady = 10 * max(2, round(100 * seconds_per_frame))
    next(images).save(
        path,
        format="GIF",
        save_all=True,
        append_images=images,
        duration=[steady] * (len(drawings) - 1) + [steady + round(1000 * _LAST)],
        loop=0,
        optimize=False,
    )


def save_mp4(
    drawings: Sequence[Drawing],
    path: str | Path,
    *,
    theme: str = "light",
    seconds_per_frame: float = 0.5,
    scale: float = 1.0,
) -> None:
    """Writes drawings as an MP4 film; the arguments are those of `save_gif`.

    Raises:
        ConfigError: there is no ffmpeg, or it fails; there is no such theme, or no drawing.
        ValueError: the drawings differ in size.
    """
    program = check_ffmpeg(str(path))
    _check(drawings, seconds_per_frame)
    still = 1 + round(_LAST / seconds_per_frame)
    width, height = image_of(drawings[0], theme=theme, scale=scale).size
    command = [
        *(program, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"),
        *("-s", f"{width}x{height}", "-framerate", f"{1 / seconds_per_frame:g}", "-i", "-"),
        # Players want even sizes, this colour format, and several pictures a second.
        *("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-r", "20"),
        *("-movflags", "+faststart", "-fflags", "+bitexact", "-flags:v", "+bitexact"),
        *("-f", "mp4", f"file:{path}"),
    ]
    images = _images(drawings, theme, scale)
    _pipe(command, images, [1] * (len(drawings) - 1) + [still], path)


def check_ffmpeg(name: str) -> str:
    """The path of ffmpeg, which `name` (a flag or a file, for the message) needs.

    Raises:
        ConfigError: it is not on the PATH.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise ConfigError(f"{name} needs ffmpeg on the PATH: install ffmpeg, or use --gif")
    return program


def _pipe(
    command: list[str], images: Iterator["Image"], times: list[int], path: str | Path
) -> None:
    """Runs ffmpeg on the pixels of images, each repeated a number of times."""
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
            pass  # ffmpeg gave up; it says why below
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
    """The colours that all pictures share, from some of them."""
    from PIL import Image

    step = max(1, -(-len(drawings) // _SAMPLES))
    images = list(_images(drawings[::step], theme, scale))
    width, height = images[0].size
    sheet = Image.new("RGB", (width, height * len(images)))
    for number, image in enumerate(images):
        sheet.paste(image, (0, number * height))
    return sheet.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT)
