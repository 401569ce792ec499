"""The ways into the terminal."""

import os
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import plain_console
from hackmatrix_rl.view._names import STYLES, Signs, signs_for, styled
from hackmatrix_rl.view._picture_text import picture_text
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


def is_terminal() -> bool:
    """Whether a person sits in front of this process: it can show a game and take keys."""
    # Textual draws on standard error.
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    on_terminal = all(each is not None and not each.closed and each.isatty() for each in streams)
    return on_terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def check_terminal(command: str) -> None:
    """Checks that a game can be played here, before anything else begins."""
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
    """Lets a person play until they quit; the last game. Call `check_terminal` before."""
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
    """Shows an agent play: the board, each move by name, its reward, and what the agent thinks.

    Space pauses, the left and right arrows step, + and - change the speed, q ends. Moves that the
    game has already are shown first; with `plays`, the agent plays it on to its end. Without a mind
    there are no thoughts. Where there is no terminal, or the console (by default standard output)
    is not one, each move is printed as a line, and then the last board.
    """
    console = plain_console() if console is None else console
    if not (console.is_terminal and is_terminal()):
        _print_game(match, mind if plays else None, console)
        return
    app = WatchApp(match, mind, name, seconds_per_move, _signs_of_terminal(), plays=plays)
    app.run()
    app.background.close(plain_console(stderr=True))


def show_in_terminal(scenes: Iterable[Scene], player: str, *, seconds_per_move: float) -> None:
    """Shows the positions of any game one after another in the same place; Ctrl-C ends it.

    Where standard output is no terminal, each move is printed as a line, and then the last picture.
    """
    console = plain_console()
    signs = signs_for(console.encoding)
    live = Live(console=console, auto_refresh=False, transient=True)
    shown, total = Text(), 0.0
    with suppress(KeyboardInterrupt), live if console.is_terminal else nullcontext():
        for number, scene in enumerate(scenes):
            total += scene.reward
            move = _scene_line(number, scene, total, signs)
            # Pixels are colours, which no file has.
            if console.is_terminal or isinstance(scene.picture, str):
                shown = picture_text(scene.picture, console.width)
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
