"""Names and keys of actions, and why an action is not legal."""

from collections.abc import Mapping

import numpy as np

from hackmatrix_rl.game import FIRST_PROGRAM, SIPHON, SPECS, STEPS, Action, Program
from hackmatrix_rl.view._frame import Frame, neighbours

# A letter of the name where one is left; `h` (hint) and `q` (quit) are not actions.
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
"""The key of each action that is not a direction; directions have the arrow keys."""


def program_name(program: Program) -> str:
    """The name of a program: `SIPH+`, not `SIPH_PLUS`."""
    return Action(FIRST_PROGRAM + program).label


def why_not(frame: Frame, mask: np.ndarray, action: Action | int) -> str | None:
    """Why an action is not legal, in a few words; `None` if it is.

    The frame may be complete or as the player sees it; `mask` is bool of shape (28,).
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
