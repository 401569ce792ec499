"""Shows games in a notebook, and draws text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from hackmatrix_rl.env import HackMatrixState
from hackmatrix_rl.games.hackmatrix import State
from hackmatrix_rl.system import typed_path, write_whole
from hackmatrix_rl.system.errors import ConfigError, printable
from hackmatrix_rl.view._board_drawing import draw
from hackmatrix_rl.view._drawing import Drawing, Text, grid
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._frame_of import frames_of
from hackmatrix_rl.view._raster import save_png
from hackmatrix_rl.view._svg import svg_of

_WIDE, _HIGH, _SIZE = 9.0, 18.0, 14.0  # width, line height and font size, in pixels
_MOST_ROWS, _MOST_COLUMNS = 200, 400


def drawing_of_text(text: str) -> Drawing:
    """Draws monospaced text; lines beyond 200 and columns beyond 400 are omitted.

    Each character is placed separately, because the font is proportional.
    """
    lines = [line.expandtabs()[:_MOST_COLUMNS] for line in text.split("\n")[:_MOST_ROWS]]
    shapes = tuple(
        Text((column + 1.5) * _WIDE, (row + 1) * _HIGH, character, _SIZE, "text", "middle")
        for row, line in enumerate(lines)
        for column, character in enumerate(printable(line))
        if character != " "
    )
    columns = 2 + max(len(printable(line)) for line in lines)
    return Drawing(columns * _WIDE, (len(lines) + 1) * _HIGH, shapes, title="\n".join(lines))


MOST_GAMES = 16
"""Most games of a batch that `show` draws."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing that a notebook displays, in the colours of a theme."""

    drawing: Drawing
    theme: str = "auto"

    def __repr__(self) -> str:
        return f"<{self.drawing.title}>"

    def _repr_svg_(self) -> str:
        return svg_of(self.drawing, self.theme)

    def save(self, path: str | Path, *, scale: float = 2.0) -> None:
        """Writes the picture as `.svg` or `.png`. The theme `auto` is written as `light`.

        A PNG image has `scale` pixels per pixel of the drawing.

        Raises:
            ConfigError: the path has another suffix.
        """
        theme = "light" if self.theme == "auto" else self.theme
        path = typed_path(path)
        match Path(path).suffix.lower():
            case ".svg":
                write_whole(path, svg_of(self.drawing, theme))
            case ".png":
                save_png(self.drawing, path, theme=theme, scale=scale)
            case ending:
                raise ConfigError(
                    f"path {str(path)!r} ends in {ending!r}: a picture is saved as .svg or .png"
                )


def show(
    games: State | HackMatrixState | Frame | Sequence[Frame],
    *,
    theme: str = "auto",
    aids: bool = True,
) -> Picture:
    """Draws one game, or up to 16 games of a batch. A notebook displays the picture.

    It shows the full state; what the player does not see is dashed.
    `show(frame_of(state).seen())` shows the player's view.

    Args:
        games: the state of a game or of a batch of games, the state of the environment, or frames.
        theme: `light`, `dark`, or `auto` for the preference of the reader's system.
        aids: whether to show the enemies that hit next turn, the targets of shots, and the yield of
            a siphon.

    Raises:
        TypeError: `games` has another type.
        ValueError: there is no game, or the batch has more than one axis.
        ConfigError: there is no such theme.
    """
    frames, more = _frames(games)
    if not frames:
        raise ValueError("games is empty: there is nothing to show")
    if len(frames) == 1:
        picture = Picture(draw(frames[0], aids=aids), theme)
    else:
        boards = []
        for number, each in enumerate(frames):
            line = (
                f"{number}: stage {each.stage}, turn {each.turn}, hp {each.hp}, score {each.score}"
            )
            boards.append(draw(each, aids=aids, panel=False, caption=line))
        picture = Picture(grid(boards, more=more), theme)
    picture._repr_svg_()  # an unknown theme raises here, not when the notebook displays it
    return picture


def load_ipython_extension(ipython: Any) -> None:
    """Registers displays for states and frames in a notebook: `%load_ext hackmatrix_rl.view`."""
    formatter = ipython.display_formatter.formatters["image/svg+xml"]
    for kind in (State, HackMatrixState, Frame):
        formatter.for_type(kind, lambda games: show(games)._repr_svg_())


def _frames(games: Any) -> tuple[list[Frame], int]:
    """The frames to draw, and the number of omitted ones."""
    if isinstance(games, HackMatrixState):
        games = games.games
    if isinstance(games, State):
        return _from_state(games)
    frames = [games] if isinstance(games, Frame) else games
    if not isinstance(frames, Sequence) or not all(isinstance(each, Frame) for each in frames):
        raise TypeError(
            f"games is of type {type(games).__name__}: show takes a State, a HackMatrixState, "
            "a Frame or a list of frames"
        )
    return list(frames[:MOST_GAMES]), max(0, len(frames) - MOST_GAMES)


def _from_state(games: State) -> tuple[list[Frame], int]:
    shape = games.position.stage.shape
    if len(shape) > 1:
        raise ValueError(f"games has {len(shape)} batch axes, {shape}: show takes at most one")
    if not shape:
        games = jax.tree.map(lambda leaf: leaf[None], games)
    count = games.position.stage.shape[0]
    some = jax.tree.map(lambda leaf: leaf[:MOST_GAMES], games)
    return frames_of(some) if count else [], max(0, count - MOST_GAMES)
