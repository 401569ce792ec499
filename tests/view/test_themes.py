"""Whether what a theme draws can be read, by the contrast of WCAG 2."""

import pytest

from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import THEMES, css_variables, draw, svg_of
from view.boards import frame

pytestmark = pytest.mark.view

GROUNDS = ("background", "cell", "cell_siphoned")

TEXTS = {
    "text": GROUNDS,
    "muted": GROUNDS,
    "on_player": ("player",),
    "on_data": ("data",),
    "on_program": ("program",),
    "on_enemy": ("virus", "daemon", "glitch", "cryptog"),
    "on_danger": ("danger",),
    "transmission": ("cell",),
    "exit": ("cell",),
    "virus": ("cell",),
    "daemon": ("cell",),
    "glitch": ("cell",),
    "cryptog": ("cell",),
    "cell": ("text",),
}
"""Inks of texts, and what they lie on."""

MARKS = {
    "player": ("cell", "board"),
    "data": ("cell",),
    "program": ("cell", "board"),
    "question": ("cell", "cell_siphoned"),
    "credits": ("cell", "cell_siphoned"),
    "energy": ("cell", "cell_siphoned"),
    "siphon": ("cell", "board", "background"),
    "hp": ("background",),
    "danger": ("cell", "board"),
    "shot": ("cell", "board", "cell_siphoned"),
    "rule": ("background",),
}
"""Inks of signs, and what they lie on."""


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (MARKS, 3.0)])
def test_everything_can_be_read(name, pairs, least):
    theme = THEMES[name]
    poor = [
        f"{ink} on {ground}: {contrast(theme[ink], theme[ground]):.2f}"
        for ink, grounds in pairs.items()
        for ground in grounds
        if contrast(theme[ink], theme[ground]) < least
    ]
    assert not poor


def test_themes_have_the_same_inks_and_all_are_judged():
    light, dark = THEMES["light"], THEMES["dark"]
    assert light.keys() == dark.keys()
    grounds = {"background", "board", "cell", "cell_siphoned"}
    assert light.keys() - grounds == (TEXTS.keys() | MARKS.keys()) - grounds


def test_every_ink_of_a_picture_is_in_the_themes_which_are_known_by_name():
    shapes = [
        shape for name in ("everything", "crowded", "quiet") for shape in draw(frame(name)).shapes
    ]
    used = {getattr(shape, field, None) for shape in shapes for field in ("fill", "stroke", "ink")}
    assert used - {None} <= THEMES["light"].keys()
    for ink, colour in THEMES["dark"].items():
        assert f"--ink-{ink}:{colour};" in css_variables("dark")
    with pytest.raises(ConfigError, match=r"theme 'pink' .*light, dark, auto"):
        svg_of(draw(frame("quiet")), "pink")
    with pytest.raises(ConfigError, match=r"theme 'auto' .*light, dark$"):
        css_variables("auto")
