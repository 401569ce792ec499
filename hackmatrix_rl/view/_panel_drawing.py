"""The numbers beside the board as shapes."""

from hackmatrix_rl.game import LAST_STAGE, MAX_HP
from hackmatrix_rl.view._drawing import Ink, Rect, Shape, Text
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._marks import bolt, coin, counted, cross_hair, fitted, heart, plus
from hackmatrix_rl.view._names import program_name

PANEL = 208.0
"""Its width."""

_CHIPS_IN_A_ROW = 4


def panel(frame: Frame, x: float, y: float) -> list[Shape]:
    """Hit points, stage, resources, programs and flags, one under the other."""
    return [
        *_life(frame, x, y),
        *_score(frame, x, y + 52),
        *_resources(frame, x, y + 116),
        *_programs(frame, x, y + 206),
        *_flags(frame, x, y + 364),
    ]


def _life(frame: Frame, x: float, y: float) -> list[Shape]:
    hearts = [heart(x + 13 + 27 * each, y + 22, 11, full=each < frame.hp) for each in range(MAX_HP)]
    return [
        *hearts,
        *_pair("stage", f"{frame.stage} / {LAST_STAGE}", x + 96, y, 52),
        *_pair("turn", f"{frame.turn:,}", x + 156, y, 52),
    ]


def _score(frame: Frame, x: float, y: float) -> list[Shape]:
    text = f"{frame.score:,}"
    return [
        Text(x, y + 12, "score", 12, "muted"),
        Text(x, y + 44, text, fitted(text, 32, PANEL, bold=True), "text", bold=True),
    ]


def _resources(frame: Frame, x: float, y: float) -> list[Shape]:
    columns = (x, x + PANEL / 2 + 2)
    width = PANEL / 2 - 2
    return [
        *_box("credits", frame.credits, columns[0], y, width),
        coin(columns[0] + 17, y + 20, 8),
        *_box("energy", frame.energy, columns[1], y, width),
        bolt(columns[1] + 17, y + 20, 10),
        *_box("siphons", frame.data_siphons, columns[0], y + 43, width),
        plus(columns[0] + 17, y + 63, 8),
        *_box("attack", frame.attack_damage, columns[1], y + 43, width),
        *cross_hair(columns[1] + 17, y + 63, 6.5),
    ]


def _box(name: str, number: int, x: float, y: float, width: float) -> list[Shape]:
    text = f"{number:,}"
    return [
        Rect(x, y, width, 39, 8, fill="cell"),
        Text(x + 33, y + 15, name, 11, "muted"),
        Text(x + 33, y + 33, text, fitted(text, 17, width - 38, bold=True), "text", bold=True),
    ]


def _pair(name: str, value: str, x: float, y: float, width: float) -> list[Shape]:
    return [
        Text(x, y + 12, name, 12, "muted"),
        Text(x, y + 34, value, fitted(value, 18, width, bold=True), "text", bold=True),
    ]


def _programs(frame: Frame, x: float, y: float) -> list[Shape]:
    shapes: list[Shape] = [Text(x, y + 12, "programs", 12, "muted")]
    if not frame.owned:
        shapes.append(Text(x, y + 34, "none yet", 14, "muted"))
    width = (PANEL + 4) / _CHIPS_IN_A_ROW
    for number, program in enumerate(frame.owned):
        row, column = divmod(number, _CHIPS_IN_A_ROW)
        left, top = x + column * width, y + 20 + 22 * row
        shapes += _chip(program_name(program), left, top, width - 4, on=True)
    return shapes


def _chip(text: str, x: float, y: float, width: float, *, on: bool) -> list[Shape]:
    size = fitted(text, 11.5, width - 6, bold=True)
    ink: Ink = "on_program" if on else "muted"
    fill: Ink | None = "program" if on else None
    return [
        Rect(x, y, width, 19, 5, fill=fill, stroke=None if on else "rule", stroke_width=1),
        Text(x + width / 2, y + 13.6, text, size, ink, "middle", bold=True),
    ]


def _flags(frame: Frame, x: float, y: float) -> list[Shape]:
    flags = (
        ("SHOW", frame.show_activated),
        ("CALM", frame.scheduled_tasks_disabled),
        ("STEP", frame.step_active),
    )
    width = (PANEL + 4) / len(flags)
    shapes: list[Shape] = [Text(x, y + 12, "active", 12, "muted")]
    for number, (name, on) in enumerate(flags):
        shapes += _chip(name, x + number * width, y + 20, width - 4, on=on)
    off = frame.scheduled_tasks_disabled
    task = "no scheduled tasks" if off else f"task at turn {frame.next_scheduled_task_turn:,}"
    back = f"UNDO goes back {counted(frame.snapshots, 'turn')}"
    return [
        *shapes,
        Text(x, y + 58, task, fitted(task, 12, PANEL), "text"),
        Text(x, y + 75, back, fitted(back, 12, PANEL), "text"),
    ]
