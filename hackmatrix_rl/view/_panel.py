"""The numbers, the flags and the programs beside a board."""

import textwrap

import numpy as np
from rich.text import Text

from hackmatrix_rl.game import FIRST_PROGRAM, LAST_STAGE, MAX_HP, SPECS, Action, Program
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._keys import KEYS
from hackmatrix_rl.view._marks import counted
from hackmatrix_rl.view._names import program_name
from hackmatrix_rl.view._reasons import why_not
from hackmatrix_rl.view._signs import STYLES, UNICODE, Signs, fitted, styled

_ROW = 17  # key, name and cost of a program
_INDENT = 4


def panel_of(
    frame: Frame,
    mask: np.ndarray | None = None,
    *,
    width: int = 30,
    height: int = 19,
    signs: Signs = UNICODE,
) -> Text:
    """The player's numbers, the flags, and the owned programs: `height` lines of `width`.

    A program has its key, its name and its cost. The key of one that is not legal is in
    parentheses, and the reason stands beside it or below it if there is room.
    """
    lines = _numbers(frame, width, signs)
    lines += _programs(frame, mask, width, height - len(lines))
    lines += [styled("")] * (height - len(lines))
    rows = [fitted(line, width, signs) for line in lines[:height]]
    return Text("\n", no_wrap=True).join(rows)


def _numbers(frame: Frame, width: int, signs: Signs) -> list[Text]:
    half = min(width // 2, 20)

    def pair(left: str, right: str, left_style: str = "", right_style: str = "") -> Text:
        return (
            fitted(styled(left, left_style), half - 1, signs)
            + styled(" ")
            + fitted(styled(right, right_style), width - half, signs)
        )

    hearts = signs.hp[0] * frame.hp + signs.hp[1] * (MAX_HP - frame.hp)
    low = STYLES["aim"] if frame.hp <= 1 else STYLES["title"]
    return [
        pair(f"hp {frame.hp} {hearts}", f"attack {_short(frame.attack_damage)}", low),
        pair(f"stage {frame.stage} of {LAST_STAGE}", f"turn {_short(frame.turn)}"),
        pair(f"score {_short(frame.score)}", f"siphons {_short(frame.data_siphons)}"),
        pair(
            f"credits ${_short(frame.credits)}",
            f"energy E{_short(frame.energy)}",
            STYLES["credits"],
            STYLES["energy"],
        ),
        pair(_task(frame), _undo(frame)),
        styled(_flags(frame), STYLES["title"]),
    ]


def _short(number: int) -> str:
    """At most 5 characters."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= size:
            return f"{number // (1000 if letter == 'k' else size)}{letter}"
    return str(number)


def _task(frame: Frame) -> str:
    if frame.scheduled_tasks_disabled:
        return "no tasks"
    return f"task in {_short(max(1, frame.next_scheduled_task_turn - frame.turn))}"


def _undo(frame: Frame) -> str:
    """How far UNDO goes back, for who owns it."""
    if Program.UNDO not in frame.owned:
        return ""
    return f"undo: {counted(frame.snapshots, 'turn')}"


def _flags(frame: Frame) -> str:
    flags = {
        "SHOW": frame.show_activated,
        "CALM": frame.scheduled_tasks_disabled,
        "STEP": frame.step_active,
    }
    active = [name for name, is_on in flags.items() if is_on]
    return f"active: {' '.join(active)}" if active else ""


def _programs(frame: Frame, mask: np.ndarray | None, width: int, room: int) -> list[Text]:
    """The owned programs, with as much about each as there is room for."""
    title = styled("programs", STYLES["title"])
    if not frame.owned:
        return [title, styled("none: siphon a block", STYLES["faint"])]
    rows = [(program, _reason(frame, mask, program)) for program in frame.owned]
    detailed = [line for program, why in rows for line in _detailed(program, why, width)]
    if len(detailed) < room:
        return [title, *detailed]
    if len(rows) < room:
        return [title, *(_line(program, why, width) for program, why in rows)]
    short = [_entry(program, why is None) for program, why in rows]
    half = -(-len(short) // 2)
    pairs = zip(short[:half], [*short[half:], styled("")], strict=False)
    return [title, *(fitted(left, width // 2) + right for left, right in pairs)]


def _reason(frame: Frame, mask: np.ndarray | None, program: Program) -> str | None:
    return None if mask is None else why_not(frame, mask, FIRST_PROGRAM + program)


def _entry(program: Program, usable: bool) -> Text:
    """Key and name, in 13 characters."""
    key = KEYS[Action(FIRST_PROGRAM + program)]
    name = f"{program_name(program):6}"
    if usable:
        return styled(f" {key}  ") + styled(name, STYLES["title"])
    return styled(f"({key}) {name}", STYLES["faint"])


def _cost(program: Program) -> str:
    spec = SPECS[program]
    parts = [f"${spec.credits}"] if spec.credits else []
    return " ".join(parts + ([f"E{spec.energy}"] if spec.energy else []))


def _costed(program: Program, why: str | None) -> Text:
    style = "" if why is None else STYLES["faint"]
    return _entry(program, why is None) + styled(f" {_cost(program):5} ", style)


def _line(program: Program, why: str | None, width: int) -> Text:
    said = SPECS[program].does if why is None and width >= 50 else why or ""
    return fitted(_costed(program, why) + styled(said, STYLES["faint"]), width)


def _detailed(program: Program, why: str | None, width: int) -> list[Text]:
    """The program, and in the next lines why it is not legal, unless it fits beside it."""
    if why is None or _ROW + len(why) <= width:
        return [_line(program, why, width)]
    said = textwrap.wrap(why, width - _INDENT)
    return [
        _costed(program, why),
        *(styled(" " * _INDENT + line, STYLES["faint"]) for line in said),
    ]
