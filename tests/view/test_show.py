"""Games in a notebook."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from games.hackmatrix.recordings import CONFIG, load, rows
from PIL import Image

import hackmatrix_rl as hm
from hackmatrix_rl.env import HackMatrixState
from hackmatrix_rl.games.hackmatrix import State, from_arrays
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import Picture, draw, frame_of, load_ipython_extension, svg_of
from hackmatrix_rl.view._show import _frames
from view.boards import frame, state

pytestmark = pytest.mark.view


@pytest.fixture(scope="module")
def games() -> State:
    """A batch of 20 games."""
    return from_arrays(CONFIG, rows(load("new_games").before, jnp.arange(20)))


def words(picture: Picture) -> list[str]:
    svg = ElementTree.fromstring(picture._repr_svg_())
    return [each.text or "" for each in svg.iter("{http://www.w3.org/2000/svg}text")]


def test_a_game_shows_itself_and_the_state_of_the_environment_its_games(games):
    one = jax.tree.map(lambda leaf: leaf[0], games)
    picture = hm.show(one)
    assert picture.drawing == draw(frame_of(one))
    assert picture._repr_svg_() == svg_of(picture.drawing, "auto")
    assert "stage 1, turn 0" in repr(picture)
    env = hm.HackMatrix(CONFIG)
    shapes, _ = jax.eval_shape(env.reset, jax.random.split(jax.random.key(0), 20))
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    assert isinstance(empty, HackMatrixState)
    assert hm.show(replace(empty, games=games)).drawing == hm.show(games).drawing


def test_a_batch_is_a_grid_that_says_how_many_more_there_are(games):
    found = words(hm.show(games))
    assert "and 4 more" in found
    assert sum(each.startswith(("0: stage 1", "15: stage 1")) for each in found) == 2
    assert not any(each.startswith("16: stage") for each in found)
    assert found.count("@") == 16
    few = jax.tree.map(lambda leaf: leaf[:3], games)
    found = words(hm.show(few))
    assert found.count("@") == 3
    assert not any("more" in each for each in found)


def test_frames_are_shown_as_they_are(games):
    seen = frame("everything").seen()
    assert hm.show(seen).drawing == draw(seen)
    assert hm.show([seen]).drawing == draw(seen)
    assert words(hm.show([frame("everything"), seen])).count("@") == 2
    assert hm.show(seen, aids=False).drawing == draw(seen, aids=False)


@pytest.mark.parametrize("wrong", [3, "state", None, [1], (frame, 2), {"a": 1}])
def test_what_is_no_game_is_refused(wrong):
    with pytest.raises(TypeError):
        hm.show(wrong)
    # The checks of types in tests come first; this is what users read.
    with pytest.raises(TypeError, match=r"show takes a State, a HackMatrixState, a Frame or a"):
        _frames(wrong)


def test_nothing_and_too_much_are_refused(games):
    none, deep = (jax.tree.map(lambda leaf, i=i: leaf[i], games) for i in (slice(0), None))
    for wrong, said in (([], "empty"), (none, "empty"), (deep, "2 batch axes")):
        with pytest.raises(ValueError, match=said):
            hm.show(wrong)


def test_themes(games):
    for theme in ("light", "dark"):
        picture = hm.show(frame("quiet"), theme=theme)
        assert picture._repr_svg_() == svg_of(picture.drawing, theme)
    assert "prefers-color-scheme:dark" in hm.show(frame("quiet"))._repr_svg_()
    with pytest.raises(ConfigError, match="theme 'pink'"):
        hm.show(frame("quiet"), theme="pink")


def test_a_picture_is_saved_by_its_ending(tmp_path: Path):
    picture = hm.show(frame("quiet"))
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == svg_of(picture.drawing, "light")
    picture.save(str(tmp_path / "a.PNG"), scale=0.5)
    with Image.open(tmp_path / "a.PNG") as image:
        assert image.size[0] == round(picture.drawing.width / 2)
    for name in ("a.jpg", "picture"):
        with pytest.raises(ConfigError, match=rf"{name}.*\.svg or \.png"):
            picture.save(tmp_path / name)


def test_a_notebook_shows_games_by_themselves_after_the_extension_is_loaded():
    shown = {}
    formatter = SimpleNamespace(for_type=shown.__setitem__)
    display = SimpleNamespace(formatters={"image/svg+xml": formatter})
    load_ipython_extension(SimpleNamespace(display_formatter=display))
    assert shown[State](state("quiet")) == hm.show(state("quiet"))._repr_svg_()
    assert HackMatrixState in shown
