"""A picture as characters of a terminal."""

import io

import numpy as np
from rich.style import Style
from rich.text import Text

from hackmatrix_rl.system.errors import printable

_WIDEST, _TALLEST = 80, 20  # characters of a picture of pixels


def picture_text(picture: str | bytes, width: int) -> Text:
    """Lines of text, or the content of a PNG file in at most `width` characters.

    Each character shows two pixels, one above the other, in the colours of the picture.
    """
    if isinstance(picture, str):
        lines = (printable(line.expandtabs()) for line in picture.split("\n"))
        return Text("\n".join(lines), no_wrap=True)
    from PIL import Image

    with Image.open(io.BytesIO(picture), formats=["PNG"]) as opened:
        image = opened.convert("RGB")
        image.thumbnail((min(width, _WIDEST), 2 * _TALLEST))
        pixels = np.asarray(image)
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    rows = [
        Text.assemble(*((chr(0x2580), _style(*pair)) for pair in zip(upper, lower, strict=True)))
        for upper, lower in zip(pixels[::2], pixels[1::2], strict=True)
    ]
    return Text("\n", no_wrap=True).join(rows)


def _style(upper: np.ndarray, lower: np.ndarray) -> Style:
    return Style(color=_colour(upper), bgcolor=_colour(lower))


def _colour(pixel: np.ndarray) -> str:
    return "#{:02x}{:02x}{:02x}".format(*pixel.tolist())
