"""A position as a picture."""

from hackmatrix_rl.game import NUM_CELLS, SIZE, Content
from hackmatrix_rl.view._actors import Actor, actors_on
from hackmatrix_rl.view._drawing import Circle, Drawing, Line, Polygon, Rect, Shape, Text
from hackmatrix_rl.view._frame import Cell, Frame
from hackmatrix_rl.view._marks import Point, counted, cross_hair, fitted, plus
from hackmatrix_rl.view._names import program_name
from hackmatrix_rl.view._panel_drawing import PANEL
from hackmatrix_rl.view._panel_drawing import panel as numbers_beside
from hackmatrix_rl.view._tiles import TILE, tile

_GAP = 4.0
_PITCH = TILE + _GAP
_MARGIN = 14.0
_EDGE = 6.0
_BOARD = SIZE * _PITCH - _GAP + 2 * _EDGE
_CAPTION = 30.0
_FOOT = 26.0

# Where several things stand on one cell, and how small they are; lower down where a block's label
# needs the upper edge.
_Places = dict[int, tuple[float, tuple[Point, ...]]]
_PLACES: _Places = {
    1: (1.0, ((34, 32),)),
    2: (0.66, ((19, 35), (49, 35))),
    3: (0.54, ((21, 21), (48, 21), (34, 49))),
    4: (0.54, ((24, 20), (51, 20), (24, 49), (51, 49))),
}
_ON_BLOCK: _Places = {
    1: (0.76, ((34, 41),)),
    2: (0.6, ((19, 42), (49, 42))),
    3: (0.46, ((20, 30), (48, 30), (34, 54))),
    4: (0.46, ((22, 30), (48, 30), (22, 54), (48, 54))),
}


def draw(
    frame: Frame, *, aids: bool = True, caption: str | None = None, panel: bool = True
) -> Drawing:
    """A position as a picture: the board, and the numbers beside it.

    A complete frame shows what the player does not see as ghosts: dashed outlines.

    Args:
        frame: the position.
        aids: whether it shows who hits next turn, where shots go, and what a siphon takes.
        caption: a line above the board.
        panel: whether the numbers stand beside the board.
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
        shapes += numbers_beside(frame, 2 * _MARGIN + _BOARD, top)
    if aids:
        shapes += _siphon_line(frame, top + _BOARD + 22)
    return Drawing(width, height, tuple(shapes), _in_words(frame))


def _corner(cell: int, top: float) -> Point:
    """The upper left corner of a cell."""
    row, col = divmod(cell, SIZE)
    return _MARGIN + _EDGE + col * _PITCH, top + _EDGE + (SIZE - 1 - row) * _PITCH


def place_of(cell: int) -> tuple[float, float, float]:
    """Where a cell is in a drawing without a caption: its left edge, its upper edge, its side."""
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
        for cell in _attacking(frame):
            shapes += _alarm(*_corner(cell, top))
    return shapes


def _crowd(here: list[Actor], x: float, y: float, layouts: _Places) -> list[Shape]:
    """What stands on one cell: all of it, or some and how many more."""
    if not here:
        return []
    scale, places = layouts[min(len(layouts), len(here))]
    shown = here if len(here) <= len(places) else here[: len(places) - 1]
    shapes: list[Shape] = []
    for actor, (across, down) in zip(shown, places, strict=False):
        shapes += actor.draw(x + across, y + down, scale)
    if len(here) > len(shown):
        across, down = places[-1]
        shapes += _more(len(here) - len(shown), x + across, y + down)
    return shapes


def _more(count: int, x: float, y: float) -> list[Shape]:
    text = f"+{count}"
    return [
        Circle(x, y, 12, fill="cell"),
        Text(x, y + 5, text, fitted(text, 14, 24, bold=True), "text", "middle", bold=True),
    ]


def _last_known(cell: Cell, x: float, y: float, *, alone: bool) -> list[Shape]:
    """A faint mark where the player last saw a cryptog."""
    points = tuple((x + 34 + across * 26, y + 34 + down * 26) for across, down in _HEXAGON)
    solid = cell.is_block and not cell.siphoned and not cell.is_question
    ink = ("on_data" if cell.program is None else "on_program") if solid else "cryptog"
    shapes: list[Shape] = [Polygon(points, stroke=ink, stroke_width=1.5, dashed=True, opacity=0.6)]
    if alone and cell.content == Content.EMPTY:
        shapes.append(Text(x + 34, y + 40, "C", 17, ink, "middle", bold=True, opacity=0.6))
    return shapes


_HEXAGON: tuple[Point, ...] = (
    (-0.5, -0.9),
    (0.5, -0.9),
    (1.0, 0.0),
    (0.5, 0.9),
    (-0.5, 0.9),
    (-1.0, 0.0),
)


def _siphon_cross(frame: Frame, top: float) -> list[Shape]:
    """An outline of the cells that a siphon here would reach."""
    ready = frame.data_siphons > 0
    found: list[Shape] = []
    for cell in frame.siphon_yield().cells:
        x, y = _corner(cell, top)
        found.append(
            Rect(
                x - 1,
                y - 1,
                TILE + 2,
                TILE + 2,
                10,
                stroke="siphon",
                stroke_width=2.5 if ready else 1.5,
                opacity=1.0 if ready else 0.5,
            )
        )
    return found


def _flight(start: int, end: int, top: float) -> Line:
    """A thin line from the player to what a shot hits."""
    (x, y), (end_x, end_y) = _corner(start, top), _corner(end, top)
    line = ((x + 34, y + 33), (end_x + 34, end_y + 33))
    return Line(line, "shot", 1.8, dashed=True)


def _attacking(frame: Frame) -> list[int]:
    """The cells of the enemies that hit next."""
    return sorted({frame.enemies[each].cell for each in frame.attackers})


def _aids(frame: Frame, top: float) -> list[Shape]:
    """What a siphon reaches, who hits next, where shots go."""
    shapes = _siphon_cross(frame, top)
    for cell in _attacking(frame):
        x, y = _corner(cell, top)
        shapes.append(
            Rect(x + 1.5, y + 1.5, TILE - 3, TILE - 3, 8, stroke="danger", stroke_width=3.5)
        )
    for shot in frame.shots:
        if shot.target is not None:
            shapes.append(_flight(frame.player_cell, shot.target, top))
            x, y = _corner(shot.target, top)
            # On a block it leaves the label free.
            on_block = frame.cells[shot.target].is_block
            shapes += cross_hair(x + 34, y + (42 if on_block else 33), 20 if on_block else 27)
    return shapes


def _alarm(x: float, y: float) -> list[Shape]:
    """An exclamation mark in the corner of an enemy that hits next."""
    return [
        Circle(x + TILE - 4, y + 4, 8.5, fill="danger", stroke="board", stroke_width=1.5),
        Text(x + TILE - 4, y + 8.8, "!", 13, "on_danger", "middle", bold=True),
    ]


def _siphon_line(frame: Frame, y: float) -> list[Shape]:
    """What a siphon here would take, in words."""
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
    return [
        plus(_MARGIN + 8, y - 5, 7, "siphon" if ready else "muted"),
        Text(
            _MARGIN + 22,
            y,
            text,
            fitted(text, 14, _BOARD - 24),
            "text" if ready else "muted",
            bold=ready,
        ),
    ]


def _in_words(frame: Frame) -> str:
    """The position for those who do not see the picture."""
    return (
        f"HackMatrix, stage {frame.stage}, turn {frame.turn}: hp {frame.hp}, "
        f"score {frame.score}, {len(frame.enemies)} enemies, "
        f"{len(frame.transmissions)} transmissions"
    )
