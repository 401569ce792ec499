"""Names and keys of actions, and the characters of a board in a terminal."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.text import Text

from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    SIPHON,
    SPECS,
    STEPS,
    Action,
    EnemyType,
    Program,
)
from hackmatrix_rl.view._frame import Cell, Enemy, Frame, Transmission, neighbours

# A letter of the name where one is free; `h` (hint) and `q` (quit) are not actions.
KEYS: Mapping[Action, str] = {
    Action.SIPHON: "s",
    Action.PUSH: "p",
    Action.PULL: "l",
    Action.CRASH: "c",
    Action.WARP: "w",
    Action.POLY: "y",
    Action.WAIT: "z",
    Action.DEBUG: "g",
    Action.ROW: "r",
    Action.COL: "o",
    Action.UNDO: "u",
    Action.STEP: "t",
    Action.SIPH_PLUS: "i",
    Action.EXCH: "x",
    Action.SHOW: "j",
    Action.RESET: "e",
    Action.CALM: "m",
    Action.D_BOM: "b",
    Action.DELAY: "d",
    Action.ANTI_V: "v",
    Action.SCORE: "n",
    Action.REDUC: "f",
    Action.ATK_PLUS: "k",
    Action.HACK: "a",
}
"""The key of each action except the directions, which have the arrow keys."""


def program_name(program: Program) -> str:
    """The name of a program: `SIPH+`, not `SIPH_PLUS`."""
    return Action(FIRST_PROGRAM + program).label


def why_not(frame: Frame, mask: np.ndarray, action: Action | int) -> str | None:
    """Why an action is illegal, in a few words; `None` if it is legal.

    The frame may be complete or the player's view; `mask` is bool of shape (28,).
    """
    if mask[action]:
        return None
    if action < SIPHON:
        ahead = frame.player_cell + STEPS[action]
        on_board = ahead in neighbours(frame.player_cell)
        return "a block is in the way" if on_board else "the board ends here"
    if action == SIPHON:
        return "you have no data siphon"
    return _why_no_program(frame, Program(action - FIRST_PROGRAM))


def _why_no_program(frame: Frame, program: Program) -> str:
    if program not in frame.owned:
        return "you do not own it: siphon a block that holds it"
    spec = SPECS[program]
    coins = "credit" if spec.credits == 1 else "credits"
    purse = ((spec.credits, frame.credits, coins), (spec.energy, frame.energy, "energy"))
    short = [f"costs {cost} {name}: you have {held}" for cost, held, name in purse if held < cost]
    return ", ".join(short) or f"needs {spec.needs}"


@dataclass(frozen=True)
class Signs:
    """The characters of a board; each is one column wide."""

    arrows: str  #: Up, down, left, right.
    block: str
    taken: str  #: Fills a block that is siphoned.
    siphoned: str
    center: str  #: A cell that the player has siphoned from.
    transmission: str
    times: str  #: Before the number of transmissions that a block calls.
    hp: str  #: A hit point, and a lost one.
    cut: str  #: The end of a truncated text.
    minus: str
    #: Horizontal line, vertical line, then the nine corners and crossings, row by row.
    lines: str


# RUF001: these characters resemble ASCII ones on purpose.
UNICODE = Signs("↑↓←→", "▒", "░", "✓", "○", "◇", "×", "♥♡", "…", "−", "─│┌┬┐├┼┤└┴┘")  # noqa: RUF001
ASCII = Signs("^v<>", "#", ":", "%", "o", "~", "x", "*.", ".", "-", "-|+++++++++")

STYLES = {
    "player": "bold reverse green",
    "attacker": "bold reverse red",
    "enemy": "bold red",
    "idle": "red",
    "transmission": "bold magenta",
    "hidden": "magenta",
    "data": "bold cyan",
    "program": "bold blue",
    "question": "bold",
    "exit": "bold reverse cyan",
    "pickup": "bold magenta",
    "credits": "green",
    "energy": "cyan",
    "aim": "bold red",
    "ray": "red",
    "gain": "bold green",
    "faint": "dim",
    "title": "bold",
}
"""Only base colours, which are readable on light and dark backgrounds. Signs and letters repeat
everything that a colour shows."""


def signs_for(encoding: str | None) -> Signs:
    """The signs that an output with this encoding can print."""
    try:
        "".join(vars(UNICODE).values()).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def letter_of(entity: Enemy | Transmission) -> str:
    """V, D, G or C; lower case if the player does not see it; `?` if the type is unknown."""
    if entity.type is None:
        return "?"
    letter = EnemyType(entity.type).name[0]
    hidden = not entity.visible if isinstance(entity, Enemy) else not entity.type_visible
    return letter.lower() if hidden else letter


def name_of(cell: Cell) -> str:
    """The contents of a block in at most 7 characters; in lower case after `?` if hidden."""
    if not cell.known:
        return "?"
    name = f"{cell.points} pts"
    if cell.program is not None:
        name = program_name(cell.program)
    return f"?{name.lower()}" if cell.is_question else name


def styled(text: str, style: str = "") -> Text:
    """A text whose style does not extend to text that is appended to it."""
    return Text.assemble((text, style))


def bar(text: str, width: int, signs: Signs = UNICODE) -> Text:
    """A line of keys, padded to the full width."""
    return styled(fitted(styled(text), width, signs).plain, "reverse")


def fitted(text: Text, width: int, signs: Signs = UNICODE) -> Text:
    """A line of exactly this width: padded or truncated."""
    if text.cell_len > width:
        text = text[: max(0, width - 1)] + styled(signs.cut)
    return text + styled(" " * (width - text.cell_len))
