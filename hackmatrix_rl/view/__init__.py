"""Positions as pictures, in the terminal, and as pages."""

from hackmatrix_rl.view._actions import KEYS, program_name, why_not
from hackmatrix_rl.view._analysis_page import analysis_page
from hackmatrix_rl.view._board_drawing import draw
from hackmatrix_rl.view._document import document, facts, table, text
from hackmatrix_rl.view._drawing import THEMES, Drawing
from hackmatrix_rl.view._frame import (
    Cell,
    Enemy,
    Frame,
    Shot,
    SiphonYield,
    Transmission,
    neighbours,
)
from hackmatrix_rl.view._frame_of import frame_of, frames_of
from hackmatrix_rl.view._raster import check_ffmpeg, image_of, save_gif, save_mp4, save_png
from hackmatrix_rl.view._scenes import drawings_of, rendered
from hackmatrix_rl.view._show import Picture, load_ipython_extension, show
from hackmatrix_rl.view._svg import FONT, css_variables, svg_fragments, svg_of
from hackmatrix_rl.view._text import text_of

__all__ = [
    "FONT",
    "KEYS",
    "THEMES",
    "Cell",
    "Drawing",
    "Enemy",
    "Frame",
    "Picture",
    "Shot",
    "SiphonYield",
    "Transmission",
    "analysis_page",
    "check_ffmpeg",
    "css_variables",
    "document",
    "draw",
    "drawings_of",
    "facts",
    "frame_of",
    "frames_of",
    "image_of",
    "load_ipython_extension",
    "neighbours",
    "program_name",
    "rendered",
    "save_gif",
    "save_mp4",
    "save_png",
    "show",
    "svg_fragments",
    "svg_of",
    "table",
    "text",
    "text_of",
    "why_not",
]
