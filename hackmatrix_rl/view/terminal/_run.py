"""The functions that run a game in the terminal."""

import io
import os
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.style import Style
from rich.text import Text

from hackmatrix_rl.system.errors import ConfigError, printable
from hackmatrix_rl.view import plain_console
from hackmatrix_rl.view._names import STYLES, Signs, signs_for, styled
from hackmatrix_rl.view._text import panel_of, text_of
from hackmatrix_rl.view.replays import Match, Mind, Scene
from hackmatrix_rl.view.terminal._layout import (
    LEAST_HEIGHT,
    LEAST_WIDTH,
    action_name,
    move_line,
    opinion_line,
)
from hackmatrix_rl.view.terminal._layout import number as number_text
from hackmatrix_rl.view.terminal._play import PlayApp, Seat
from hackmatrix_rl.view.terminal._watch import WatchApp

_WIDEST, _TALLEST = 80, 20  # most characters of a picture of pixels


def is_terminal() -> bool:
    """Whether this process runs in an interactive terminal with a movable cursor."""
    # Textual draws on standard error.
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    on_terminal = all(each is not None and not each.closed and each.isatty() for each in streams)
    return on_terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def check_terminal(command: str) -> None:
    """Raises a ConfigError unless the terminal is interactive and large enough."""
    if not is_terminal():
        raise ConfigError(
            f"{command} needs a terminal: standard input, output or error is a pipe or a file, or "
            "TERM names a terminal without a cursor. Run it in a terminal window."
        )
    size = shutil.get_terminal_size()
    if size.columns < LEAST_WIDTH or size.lines < LEAST_HEIGHT:
        raise ConfigError(
            f"{command} needs a terminal of {LEAST_WIDTH} x {LEAST_HEIGHT} characters; this one "
            f"has {size.columns} x {size.lines}. Make the window larger or the font smaller."
        )


def play_in_terminal(seat: Seat) -> Match | None:
    """Lets a person play until they quit; returns the last game. Call `check_terminal` first."""
    app = PlayApp(seat, _signs_of_terminal())
    app.run()
    console = plain_console(stderr=True)
    app.background.close(console)
    for note in app.notes:
        console.print(note)
    return app.match


def watch_in_terminal(
    match: Match,
    mind: Mind | None,
    *,
    name: str,
    seconds_per_move: float = 0.5,
    plays: bool = True,
    console: Console | None = None,
) -> None:
    """Shows an agent's game: the board, each move, its reward, and the agent's opinion.

    Space pauses, the left and right arrows step, + and - change the speed, q quits. Existing moves
    of the match are shown first; with `plays`, the agent then plays it to its end. Without a mind,
    no opinions are shown. Without an interactive terminal, or if the console (by default standard
    output) is not one, each move is printed as a line, and then the last board.
    """
    console = plain_console() if console is None else console
    if not (console.is_terminal and is_terminal()):
        _print_game(match, mind if plays else None, console)
        return
    app = WatchApp(match, mind, name, seconds_per_move, _signs_of_terminal(), plays=plays)
    app.run()
    app.background.close(plain_console(stderr=True))


def show_in_terminal(scenes: Iterable[Scene], player: str, *, seconds_per_move: float) -> None:
    """Shows the positions of any game in turn, in the same place; Ctrl-C ends it.

    If standard output is not a terminal, each move is printed as a line, and then the last picture.
    """
    console = plain_console()
    signs = signs_for(console.encoding)
    live = Live(console=console, auto_refresh=False, transient=True)
    shown, total = Text(), 0.0
    with suppress(KeyboardInterrupt), live if console.is_terminal else nullcontext():
        for number, scene in enumerate(scenes):
            total += scene.reward
            move = _scene_line(number, scene, total, signs)
            # Pixels are shown as colours, which a text file does not have.
            if console.is_terminal or isinstance(scene.picture, str):
                shown = _picture(scene.picture, console.width)
            if console.is_terminal:
                shown += Text("\n\n") + move
                if scene.opinion is not None:
                    shown += Text("\n") + opinion_line(player, scene.opinion, signs)
                live.update(shown, refresh=True)
                time.sleep(seconds_per_move)
            elif number:
                console.print(move, soft_wrap=True)
    console.print(shown, soft_wrap=True)


def _scene_line(number: int, scene: Scene, total: float, signs: Signs) -> Text:
    if scene.action is None:
        return styled("The game begins.")
    line = styled(f"{number} {action_name(scene.action, signs)}", STYLES["title"])
    said = f"  reward {number_text(scene.reward, signs)}, return {number_text(total, signs)}"
    return line + styled(said + (f", {scene.end}" if scene.end else ""))


def _picture(picture: str | bytes, width: int) -> Text:
    """Lines of text, or the content of a PNG file in at most `width` characters.

    Each character shows two pixels, one above the other: upper half block, foreground, background.
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
    above, below = ("#{:02x}{:02x}{:02x}".format(*pixel.tolist()) for pixel in (upper, lower))
    return Style(color=above, bgcolor=below)


def _signs_of_terminal() -> Signs:
    return signs_for(None if sys.__stderr__ is None else sys.__stderr__.encoding)


def _print_game(match: Match, mind: Mind | None, console: Console) -> None:
    signs = signs_for(console.encoding)
    for moment in match.moments[1:]:
        console.print(move_line(moment, signs), soft_wrap=True)
    while mind is not None and match.now.end is None:
        moment = match.play(mind.opinion().action)
        console.print(move_line(moment, signs), soft_wrap=True)
    frame = match.now.frame
    board, panel = text_of(frame, signs=signs), panel_of(frame, match.now.mask, signs=signs)
    for left, right in zip(board.split("\n"), panel.split("\n"), strict=True):
        console.print(left + styled(" ") + right, soft_wrap=True)
    console.print(
        f"{match.now.end or 'unfinished'} after {match.now.number} moves: stage {frame.stage}, "
        f"score {frame.score}, return {match.total_reward:.2f}"
    )
