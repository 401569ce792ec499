"""Draws a position: the board, and a panel of the player's numbers."""

from dataclasses import replace

from hackmatrix_rl.games.hackmatrix import LAST_STAGE, MAX_HP, NUM_CELLS, SIZE, Content
from hackmatrix_rl.view._cells import TILE, Actor, actors_on, tile
from hackmatrix_rl.view._drawing import Circle, Drawing, Line, Polygon, Rect, Shape, Text
from hackmatrix_rl.view._frame import Cell, Frame
from hackmatrix_rl.view._marks import (
    Point,
    bold,
    bolt,
    coin,
    counted,
    cross_hair,
    fitted,
    heart,
    hexagon,
    plus,
)
from hackmatrix_rl.view._names import program_name

PANEL = 208.0
"""The width of the panel."""

_CHIPS_IN_A_ROW = 4

_GAP = 4.0
_PITCH = TILE + _GAP
_MARGIN = 14.0
_EDGE = 6.0
_BOARD = SIZE * _PITCH - _GAP + 2 * _EDGE
_CAPTION = 30.0
_FOOT = 26.0
# By the number of actors on a cell: their scale, and their centers in the cell.
_Places = dict[int, tuple[float, tuple[Point, ...]]]
_PLACES: _Places = {
    1: (1.0, ((34, 32),)),
    2: (0.66, ((19, 35), (49, 35))),
    3: (0.54, ((21, 21), (48, 21), (34, 49))),
    4: (0.54, ((24, 20), (51, 20), (24, 49), (51, 49))),
}
# Lower: the label of a block is at the upper edge.
_ON_BLOCK: _Places = {
    1: (0.76, ((34, 41),)),
    2: (0.6, ((19, 42), (49, 42))),
    3: (0.46, ((20, 30), (48, 30), (34, 54))),
    4: (0.46, ((22, 30), (48, 30), (22, 54), (48, 54))),
}


def _panel(frame: Frame, x: float, y: float) -> list[Shape]:
    """Hit points, stage, resources, programs and flags, from top to bottom."""
    score = f"{frame.score:,}"
    return [
        *(heart(x + 13 + 27 * each, y + 22, 11, full=each < frame.hp) for each in range(MAX_HP)),
        *_pair("stage", f"{frame.stage} / {LAST_STAGE}", x + 96, y, 52),
        *_pair("turn", f"{frame.turn:,}", x + 156, y, 52),
        Text(x, y + 64, "score", 12, "muted"),
        Text(x, y + 96, score, fitted(score, 32, PANEL, bold=True), "text", bold=True),
        *_resources(frame, x, y + 116),
        *_programs(frame, x, y + 206),
        *_flags(frame, x, y + 364),
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
    ink = "on_program" if on else "muted"
    fill, stroke = ("program", None) if on else (None, "rule")
    box = Rect(x, y, width, 19, 5, fill=fill, stroke=stroke)
    return [box, bold(x + width / 2, y + 13.6, text, size, ink)]


def _flags(frame: Frame, x: float, y: float) -> list[Shape]:
    width = (PANEL + 4) / len(frame.flags)
    shapes: list[Shape] = [Text(x, y + 12, "active", 12, "muted")]
    for number, (name, on) in enumerate(frame.flags.items()):
        shapes += _chip(name, x + number * width, y + 20, width - 4, on=on)
    off = frame.scheduled_tasks_disabled
    task = "no scheduled tasks" if off else f"task at turn {frame.next_scheduled_task_turn:,}"
    back = f"UNDO goes back {counted(frame.snapshots, 'turn')}"
    return [
        *shapes,
        Text(x, y + 58, task, fitted(task, 12, PANEL), "text"),
        Text(x, y + 75, back, fitted(back, 12, PANEL), "text"),
    ]


def draw(
    frame: Frame, *, aids: bool = True, caption: str | None = None, panel: bool = True
) -> Drawing:
    """Draws a position: a caption, the board, and a panel of the player's numbers.

    In a complete frame, dashed outlines (ghosts) show what the player does not see. The aids show
    which enemies hit next turn, where shots go, and what a siphon takes.
    """
    top = _MARGIN + (0 if caption is None else _CAPTION)
    width = 2 * _MARGIN + _BOARD + (_MARGIN + PANEL if panel else 0)
    height = top + _BOARD + _MARGIN + (_FOOT if aids else 0)
    shapes: list[Shape] = [Rect(0, 0, width, height, fill="background")]
    if caption is not None:
        size = fitted(caption, 16, width - 2 * _MARGIN, bold=True)
        shapes.append(Text(_MARGIN, _MARGIN + 16, caption, size, "text", bold=True))
    shapes += _board(frame, top, aids)
    if panel:
        shapes += _panel(frame, 2 * _MARGIN + _BOARD, top)
    if aids:
        shapes += _siphon_line(frame, top + _BOARD + 22)
    title = (
        f"HackMatrix, stage {frame.stage}, turn {frame.turn}: hp {frame.hp}, "
        f"score {frame.score}, {len(frame.enemies)} enemies, "
        f"{len(frame.transmissions)} transmissions"
    )
    return Drawing(width, height, tuple(shapes), title)


def _corner(cell: int, top: float) -> Point:
    row, col = divmod(cell, SIZE)
    return _MARGIN + _EDGE + col * _PITCH, top + _EDGE + (SIZE - 1 - row) * _PITCH


def place_of(cell: int) -> tuple[float, float, float]:
    """The left edge, upper edge and side of a cell in a drawing without a caption."""
    return (*_corner(cell, _MARGIN), TILE)


def _board(frame: Frame, top: float, aids: bool) -> list[Shape]:
    actors = {cell: actors_on(frame, cell) for cell in range(NUM_CELLS)}
    shapes: list[Shape] = [Rect(_MARGIN, top, _BOARD, _BOARD, 13, fill="board")]
    for number, ground in enumerate(frame.cells):
        shapes += tile(ground, *_corner(number, top), occupied=bool(actors[number]))
    for cell in sorted(frame.last_known_cells):
        ground = frame.cells[cell]
        shapes += _last_known(ground, *_corner(cell, top), alone=not actors[cell])
    if aids:
        shapes += _aids(frame, top)
    for cell, here in actors.items():
        places = _ON_BLOCK if frame.cells[cell].is_block else _PLACES
        shapes += _crowd(here, *_corner(cell, top), places)
    if aids:
        for cell in frame.attacking_cells:
            shapes += _alarm(*_corner(cell, top))
    return shapes


def _crowd(here: list[Actor], x: float, y: float, layouts: _Places) -> list[Shape]:
    """The actors on one cell: all of them, or some and `+N`."""
    if not here:
        return []
    scale, places = layouts[min(len(layouts), len(here))]
    shown = here if len(here) <= len(places) else here[: len(places) - 1]
    shapes: list[Shape] = []
    for actor, (across, down) in zip(shown, places, strict=False):
        shapes += actor(x + across, y + down, scale)
    if len(here) > len(shown):
        across, down = places[-1]
        x, y, text = x + across, y + down, f"+{len(here) - len(shown)}"
        size = fitted(text, 14, 24, bold=True)
        shapes += [Circle(x, y, 12, fill="cell"), bold(x, y + 5, text, size, "text")]
    return shapes


def _last_known(cell: Cell, x: float, y: float, *, alone: bool) -> list[Shape]:
    """A faint outline where the player last saw a cryptog."""
    points = tuple(
        (x + 34 + across * 26, y + 34 + down * 26) for across, down in hexagon(0.5, 1.0, 0.9)
    )
    solid = cell.is_block and not cell.siphoned and not cell.is_question
    ink = ("on_data" if cell.program is None else "on_program") if solid else "cryptog"
    shapes: list[Shape] = [Polygon(points, stroke=ink, stroke_width=1.5, dashed=True, opacity=0.6)]
    if alone and cell.content == Content.EMPTY:
        shapes.append(bold(x + 34, y + 40, "C", 17, ink, 0.6))
    return shapes


def _siphon_cross(frame: Frame, top: float) -> list[Shape]:
    """Outlines the cells that a siphon would reach."""
    ready = frame.data_siphons > 0
    wide, opacity, side = 2.5 if ready else 1.5, 1.0 if ready else 0.5, TILE + 2
    box = Rect(0, 0, side, side, 10, stroke="siphon", stroke_width=wide, opacity=opacity)
    corners = (_corner(cell, top) for cell in frame.siphon_yield().cells)
    return [replace(box, x=x - 1, y=y - 1) for x, y in corners]


def _aids(frame: Frame, top: float) -> list[Shape]:
    """The reach of a siphon, the enemies that hit next turn, and the targets of shots."""
    shapes = _siphon_cross(frame, top)
    for cell in frame.attacking_cells:
        x, y = _corner(cell, top)
        side = TILE - 3
        shapes.append(Rect(x + 1.5, y + 1.5, side, side, 8, stroke="danger", stroke_width=3.5))
    for shot in frame.shots:
        if shot.target is not None:
            (start_x, start_y), (x, y) = _corner(frame.player_cell, top), _corner(shot.target, top)
            way = ((start_x + 34, start_y + 33), (x + 34, y + 33))
            shapes.append(Line(way, "shot", 1.8, dashed=True))
            # On a block the label stays uncovered.
            on_block = frame.cells[shot.target].is_block
            shapes += cross_hair(x + 34, y + (42 if on_block else 33), 20 if on_block else 27)
    return shapes


def _alarm(x: float, y: float) -> list[Shape]:
    """An exclamation mark at an enemy that hits next turn."""
    return [
        Circle(x + TILE - 4, y + 4, 8.5, fill="danger", stroke="board", stroke_width=1.5),
        bold(x + TILE - 4, y + 8.8, "!", 13, "on_danger"),
    ]


def _siphon_line(frame: Frame, y: float) -> list[Shape]:
    """The yield of a siphon, in words."""
    taken = frame.siphon_yield()
    parts = [
        *([counted(taken.points, "point")] if taken.points else []),
        *map(program_name, taken.programs),
        *([counted(taken.credits, "credit")] if taken.credits else []),
        *([f"{taken.energy} energy"] if taken.energy else []),
        *([f"{taken.unknown} unknown"] if taken.unknown else []),
        *([f"calls {taken.spawns}"] if taken.spawns else []),
    ]
    ready = frame.data_siphons > 0
    text = "siphon here: " + (", ".join(parts) if parts else "nothing")
    size = fitted(text, 14, _BOARD - 24)
    return [
        plus(_MARGIN + 8, y - 5, 7, "siphon" if ready else "muted"),
        Text(_MARGIN + 22, y, text, size, "text" if ready else "muted", bold=ready),
    ]
