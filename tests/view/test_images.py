"""PNG, GIF and film."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from processes import stand_ins

from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import Drawing, check_ffmpeg, draw, image_of, save_gif, save_mp4, save_png
from hackmatrix_rl.view._drawing import THEMES, Circle, Line, Polygon, Rect, Text
from view.boards import frame

pytestmark = pytest.mark.view

SMALL = 0.2


def sheet(*shapes) -> Drawing:
    """A drawing of 20 x 10 pixels."""
    return Drawing(20, 10, (Rect(0, 0, 20, 10, fill="background"), *shapes), "test")


def drawings(count: int = 3) -> list[Drawing]:
    """Small ones, each with a square at another place."""
    return [sheet(Rect(4 * number, 2, 4, 4, fill="virus")) for number in range(count)]


def pixel(drawing: Drawing, x: int, y: int) -> str:
    red, green, blue = image_of(drawing).getpixel((x, y))
    return f"#{red:02x}{green:02x}{blue:02x}"


@pytest.mark.parametrize("scale", [0.35, 1.0, 2.0])
def test_an_image_has_the_size_of_the_drawing_times_the_scale(scale):
    drawing = draw(frame("quiet"))
    image = image_of(drawing, scale=scale)
    assert image.size == (round(drawing.width * scale), round(drawing.height * scale))
    assert image.mode == "RGB"


@pytest.mark.parametrize(
    "shape",
    [
        Rect(5, 2, 8, 6, 2, fill="danger"),
        Circle(8, 5, 4, fill="danger"),
        Polygon(((4, 1), (14, 1), (8, 9)), fill="danger"),
        Line(((0, 5), (20, 5)), "danger", 4),
    ],
)
def test_a_shape_is_painted_in_its_ink_and_nowhere_else(shape):
    assert pixel(sheet(shape), 8, 5) == THEMES["light"]["danger"]
    assert pixel(sheet(shape), 19, 0) == THEMES["light"]["background"]


def test_an_outline_leaves_the_middle_free_and_opacity_mixes_with_what_is_below():
    shape = Rect(3, 1, 14, 8, stroke="danger", stroke_width=2)
    assert pixel(sheet(shape), 3, 5) == THEMES["light"]["danger"]
    assert pixel(sheet(shape), 10, 5) == THEMES["light"]["background"]
    half = pixel(sheet(Rect(0, 0, 20, 10, fill="text", opacity=0.5)), 5, 5)
    below, above = (int(THEMES["light"][ink][1:3], 16) for ink in ("background", "text"))
    assert abs(int(half[1:3], 16) - (below + above) / 2) <= 1


def test_a_text_stands_where_its_anchor_says():
    def ink(anchor):
        pixels = np.asarray(image_of(sheet(Text(10, 9, "M", 8, "text", anchor))).convert("L"))
        return np.flatnonzero((pixels < 200).any(axis=0))

    assert ink("start").min() >= 10
    assert ink("end").max() < 10
    assert ink("middle").min() < 10 <= ink("middle").max()


def test_the_same_drawing_gives_the_same_bytes(tmp_path: Path):
    paths = [tmp_path / name for name in ("a.png", "b.png", "a.gif", "b.gif")]
    for path in paths[:2]:
        save_png(draw(frame("quiet")), path, scale=SMALL)
    for path in paths[2:]:
        save_gif(drawings(), path)
    contents = [path.read_bytes() for path in paths]
    assert contents[0] == contents[1]
    assert contents[2] == contents[3]


def test_a_gif_has_every_drawing_and_stays_on_the_last(tmp_path: Path):
    save_gif(drawings(4), tmp_path / "game.gif", seconds_per_frame=0.3, theme="dark")
    with Image.open(tmp_path / "game.gif") as animation:
        durations = []
        for number in range(animation.n_frames):
            animation.seek(number)
            durations.append(animation.info["duration"])
            want = image_of(drawings(4)[number], theme="dark")
            off = np.abs(np.asarray(animation.convert("RGB"), int) - np.asarray(want, int))
            assert off.mean() < 3
        assert durations == [300, 300, 300, 2300]
        assert animation.info["loop"] == 0


def test_a_gif_keeps_only_what_changes(tmp_path: Path):
    """A large text stays; a small square moves."""
    sizes = []
    for count in (1, 4):
        path = tmp_path / f"{count}.gif"
        still = Text(0, 9, "HackMatrix", 10, "text")
        moving = [replace(each, shapes=(*each.shapes, still)) for each in drawings(count)]
        save_gif(moving, path, scale=10)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 3 * sizes[0]


def stand_in(folder: Path, does: str) -> tuple[str, str]:
    """PATH, with a program `ffmpeg` before all others."""
    return "PATH", stand_ins(folder, ffmpeg=does)["PATH"]


@pytest.mark.parametrize("save", [save_gif, save_mp4])
@pytest.mark.parametrize(
    ("pictures", "given", "error", "said"),
    [
        ([], {}, ConfigError, "no picture"),
        (drawings(), {"seconds_per_frame": 0}, ConfigError, "seconds_per_frame is 0"),
        ([*drawings(), replace(drawings()[0], width=21)], {}, ValueError, "different sizes"),
        (drawings(), {"theme": "pink"}, ConfigError, "theme 'pink'"),
    ],
    ids=["none", "no time", "sizes", "theme"],
)
def test_what_cannot_be_saved_is_refused(save, pictures, given, error, said, tmp_path, monkeypatch):
    monkeypatch.setenv(*stand_in(tmp_path, "cat > /dev/null"))
    with pytest.raises(error, match=said):
        save(pictures, tmp_path / "x", **given)


def test_a_film_without_ffmpeg_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"game.mp4 needs ffmpeg.*install ffmpeg, or use --gif"):
        save_mp4(drawings(), tmp_path / "game.mp4")
    with pytest.raises(ConfigError, match=r"^--mp4 needs ffmpeg"):
        check_ffmpeg("--mp4")


def test_a_film_hands_every_picture_to_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    film = 'for last; do :; done; echo film > "${last#file:}"'
    does = f'echo "$@" > {tmp_path}/args; cat > {tmp_path}/pixels; {film}'
    monkeypatch.setenv(*stand_in(tmp_path, does))
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "game.mp4").symlink_to(tmp_path / "mine")
    save_mp4(drawings(3), tmp_path / "game.mp4", seconds_per_frame=0.5)
    size = image_of(drawings()[0]).size
    # The last one comes four times more: two seconds.
    assert len((tmp_path / "pixels").read_bytes()) == size[0] * size[1] * 3 * (3 + 4)
    said = (tmp_path / "args").read_text()
    assert f"-s {size[0]}x{size[1]} -framerate 2 -i -" in said
    assert (tmp_path / "game.mp4").read_text() == "film\n"
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize(
    "does", ["cat > /dev/null; echo no codec >&2; exit 1", "echo no codec >&2; exit 1"]
)
def test_what_ffmpeg_says_is_passed_on(does, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(*stand_in(tmp_path, does))
    with pytest.raises(ConfigError, match=r"ffmpeg cannot write .*game.mp4: no codec"):
        save_mp4(drawings(), tmp_path / "game.mp4", scale=100.0)
