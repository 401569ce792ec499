"""Why an action is not legal, in words."""

import numpy as np

from hackmatrix_rl.game import FIRST_PROGRAM, SIPHON, SPECS, STEPS, Action, Program
from hackmatrix_rl.view._frame import Frame, neighbours


def why_not(frame: Frame, mask: np.ndarray, action: Action | int) -> str | None:
    """Why an action is not legal, in a few words; `None` if it is.

    Args:
        frame: the position, complete or as the player sees it.
        mask: its legal actions, bool of shape (28,).
        action: the action in question.
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
    purse = ((spec.credits, frame.credits, "credit"), (spec.energy, frame.energy, "energy"))
    short = [
        f"costs {cost} {_counted(name, cost)}: you have {held}"
        for cost, held, name in purse
        if held < cost
    ]
    return ", ".join(short) or f"needs {spec.needs}"


def _counted(name: str, number: int) -> str:
    return "credits" if name == "credit" and number != 1 else name
