"""Pictures: that they never fail, stay inside their edges, and are those that are kept."""

import os
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from games.hackmatrix.mutations import accepted, mutated_positions, together
from games.hackmatrix.positions import virus
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hackmatrix_rl.view import (
    Drawing,
    Frame,
    css_variables,
    draw,
    frame_of,
    frames_of,
    image_of,
    svg_fragments,
    svg_of,
)
from hackmatrix_rl.view._drawing import Circle, Polygon, Text
from hackmatrix_rl.view._raster import _bounds
from view.boards import POSITIONS, frame, state_of

pytestmark = pytest.mark.view

KEPT = Path(__file__).resolve().parents[1] / "data" / "pictures"
RENEW = os.environ.get("RENEW_PICTURES") == "1"
"""See tests/data/pictures/README.md."""

SVG = "{http://www.w3.org/2000/svg}"

VARIANTS = {
    "complete": lambda frame: draw(frame),
    "seen": lambda frame: draw(frame.seen()),
    "bare": lambda frame: draw(frame.seen(), aids=False, panel=False, caption="UP & <down>"),
}


def texts(drawing: Drawing) -> list[str]:
    return [shape.text for shape in written(drawing)]


def written(drawing: Drawing) -> list[Text]:
    return [shape for shape in drawing.shapes if isinstance(shape, Text)]


def check(drawing: Drawing) -> None:
    """It is XML, nothing is bigger than it, and no two shapes are left without colour."""
    tree = ElementTree.fromstring(svg_of(drawing))
    assert tree.tag == f"{SVG}svg"
    assert len(tree) == len(drawing.shapes) + 1
    outside = [shape for shape in drawing.shapes if not inside(drawing, shape)]
    assert not outside
    for fragment in svg_fragments(drawing):
        ElementTree.fromstring(fragment)


def inside(drawing: Drawing, shape) -> bool:
    if isinstance(shape, Text):
        left, top, right, bottom = extent(shape)
    else:
        left, top, right, bottom = _bounds(shape)
    return left >= 0 and top >= 0 and right <= drawing.width and bottom <= drawing.height


def extent(text: Text) -> tuple[float, float, float, float]:
    """Where a text is, by the font itself."""
    from hackmatrix_rl.view import font

    wide = font(text.bold, 100.0).getlength(text.text) * text.size / 100
    left = text.x - {"start": 0, "middle": wide / 2, "end": wide}[text.anchor]
    return left, text.y - text.size, left + wide, text.y + 0.2 * text.size


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(mutated=mutated_positions, aids=st.booleans(), panel=st.booleans())
def test_every_accepted_position_has_a_picture(mutated, aids, panel):
    state = accepted(mutated.arrays())
    if state is None:
        return
    for each in frames_of(together([state], 1)):
        check(draw(each, aids=aids, panel=panel, caption="a caption"))
        check(draw(each.seen(), aids=aids, panel=panel))


def test_large_numbers_stay_in_their_boxes():
    large = [each for each in written(draw(frame("crowded"))) if "1,000,000,000" in each.text]
    for left, _, right, _ in map(extent, large):
        assert right - left < 210


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_picture_is_the_one_that_is_kept(name, variant):
    path, drawing = KEPT / f"{name}_{variant}.svg", VARIANTS[variant](frame(name))
    check(drawing)
    # One shape a line, so that a difference can be read.
    svg = svg_of(drawing, "light").replace("><", ">\n<") + "\n"
    if RENEW:
        path.write_text(svg, encoding="utf-8")
    assert svg == path.read_text(encoding="utf-8"), f"{path.name} differs; see its README.md"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_image_is_the_one_that_is_kept(theme):
    path = KEPT / f"everything_{theme}.png"
    image = image_of(draw(frame("everything")), theme=theme, scale=0.5)
    if RENEW:
        image.save(path, optimize=True)
    kept = np.asarray(Image.open(path).convert("RGB")).astype(int)
    got = np.asarray(image).astype(int)
    assert got.shape == kept.shape
    # Versions of Pillow draw the edges of letters a little differently.
    assert np.abs(got - kept).mean() < 1.5, f"{path.name} differs; see its README.md"


def test_fragments_make_the_same_picture_and_frames_share_most_of_them():
    drawing = draw(frame("everything"))
    page = "".join(svg_fragments(drawing))
    colours = dict(re.findall(r"(--ink-\w+):(#\w+);", css_variables("dark")))
    coloured = re.sub(r"var\((--ink-\w+)\)", lambda found: colours[found[1]], page)
    assert coloured in svg_of(drawing, "dark")
    one = frame("everything")
    other = replace(one, turn=one.turn + 1, player_cell=one.player_cell + 1)
    shared = set(svg_fragments(draw(one))) & set(svg_fragments(draw(other)))
    assert len(shared) > 0.75 * len(set(svg_fragments(draw(one))))


def test_it_says_in_words_what_it_shows_and_what_is_written_is_escaped():
    drawing = draw(frame("quiet"), caption="<script>alert('&')</script>")
    for theme in ("light", "auto"):
        assert "<script" not in svg_of(drawing, theme)
        found = ElementTree.fromstring(svg_of(drawing, theme))
        assert "<script>alert('&')</script>" in [each.text for each in found.iter(f"{SVG}text")]
    svg = ElementTree.fromstring(svg_of(draw(frame("everything"))))
    assert svg.get("role") == "img"
    title = svg.find(f"{SVG}title")
    assert title is not None
    assert title.text == svg.get("aria-label")
    assert "stage 3, turn 17: hp 3, score 42" in title.text


def lone(**numbers: int) -> Frame:
    """The player and a virus beside it."""
    return frame_of(state_of(player=(2, 2), enemies=[virus(2, 3)], **numbers))


def test_aids_mark_who_hits_next_and_draw_a_line_and_a_cross_hair_of_a_shot():
    assert "!" in texts(draw(lone()))
    assert "!" not in texts(draw(lone(step_active=1)))
    assert "!" not in texts(draw(lone(), aids=False))

    def aims(drawing: Drawing) -> int:
        return sum(1 for shape in drawing.shapes if getattr(shape, "stroke", None) == "shot")

    plain = aims(draw(lone(), aids=False, panel=False))
    assert plain == 0
    assert aims(draw(lone(), panel=False)) == 1 + 1 + 4


def test_the_siphon_line_says_what_it_takes():
    def line(name):
        (found,) = (
            each for each in written(draw(frame(name))) if each.text.startswith("siphon here")
        )
        return found

    assert line("everything").text == "siphon here: 6 points, UNDO, 3 credits, calls 9"
    assert line("everything").bold
    assert not line("quiet").bold, "without a data siphon it is faint"


def test_the_player_does_not_see_what_is_hidden():
    complete, seen = draw(frame("everything")), draw(frame("everything").seen())
    assert "RESET" in texts(complete)
    assert "RESET" not in texts(seen)
    assert texts(seen).count("?") == 2
    assert len(dashed_hexagons(complete, "cryptog")) == 1, "a cryptog out of sight"
    assert not dashed_hexagons(seen, "cryptog")
    assert len(dashed_hexagons(seen, "on_data")) == 1, "where it was last seen, on a data block"


def dashed_hexagons(drawing: Drawing, ink: str) -> list[Polygon]:
    polygons = [each for each in drawing.shapes if isinstance(each, Polygon)]
    return [each for each in polygons if each.dashed and each.stroke == ink]


def test_a_stack_says_how_many_more():
    shown = texts(draw(frame("crowded"), panel=False, aids=False))
    assert "+2" in shown


def test_row_0_is_at_the_bottom_and_column_0_on_the_left():
    def disc(row, col):
        shapes = draw(frame_of(state_of(player=(row, col), exit=(0, 5)))).shapes
        (found,) = (each for each in shapes if isinstance(each, Circle) and each.fill == "player")
        return found

    assert disc(0, 0).y > disc(5, 5).y
    assert disc(0, 0).x < disc(5, 5).x
