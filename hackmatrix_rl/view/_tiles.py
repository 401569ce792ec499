"""A cell of the board as shapes, without what stands on it."""

from hackmatrix_rl.game import Content
from hackmatrix_rl.view._drawing import Ink, Line, Rect, Shape, Text
from hackmatrix_rl.view._frame import Cell
from hackmatrix_rl.view._marks import bolt, calls, coin, door, fitted, pickup, plus
from hackmatrix_rl.view._names import program_name

TILE = 68.0
"""Side of a cell."""


def tile(cell: Cell, x: float, y: float, *, occupied: bool) -> list[Shape]:
    """The shapes of one cell; if something stands on it, labels keep to the edge."""
    ground: Ink = "cell_siphoned" if cell.siphoned else "cell"
    shapes: list[Shape] = [Rect(x, y, TILE, TILE, 9, fill=ground)]
    if cell.is_block:
        shapes += _block(cell, x, y, occupied)
    if cell.content == Content.PICKUP:
        small = 7.0 if occupied else 14.0
        shapes += pickup(x + (11 if occupied else 34), y + (11 if occupied else 32), small)
    if cell.content == Content.EXIT:
        if occupied:
            shapes += door(x + 57, y + 13, 13, named=False)
        else:
            shapes += door(x + 34, y + 31, 28, named=True)
    if cell.siphon_center:
        shapes.append(plus(x + 34, y + 62, 4, "muted"))
    return shapes + _resources(cell, x, y, occupied)


def _block(cell: Cell, x: float, y: float, occupied: bool) -> list[Shape]:
    kind: Ink = "program" if cell.program is not None else "data"
    if cell.is_question:
        kind = "question"
    shapes: list[Shape] = []
    solid = not cell.siphoned and not cell.is_question
    if kind == "program":
        shapes += _pins(x, y)
    inset = 5.0 if kind == "program" else 2.0
    side = TILE - 2 * inset
    shapes.append(
        Rect(
            x + inset,
            y + inset,
            side,
            side,
            8,
            fill=kind if solid else None,
            stroke=None if solid else kind,
            stroke_width=2.0,
            dashed=cell.is_question,
        )
    )
    return shapes + _label(cell, x, y, f"on_{kind}" if solid else "text", occupied)


def _pins(x: float, y: float) -> list[Shape]:
    """The legs of a chip: a program block."""
    found: list[Shape] = []
    for place in (20.0, 34.0, 48.0):
        for start, end in ((0.0, 5.0), (TILE - 5, TILE)):
            found.append(Line(((x + start, y + place), (x + end, y + place)), "program", 3.0))
            found.append(Line(((x + place, y + start), (x + place, y + end)), "program", 3.0))
    return found


def _label(cell: Cell, x: float, y: float, ink: Ink, occupied: bool) -> list[Shape]:
    """What a block holds: the numbers and names that say it."""
    name = _contents(cell)
    if occupied:
        label = f"? {name}".strip() if cell.is_question else name
        size = fitted(label, 12, 27, bold=True)
        found: list[Shape] = [Text(x + 8, y + 16, label, size, ink, bold=True)]
        if cell.known and cell.spawn_count and not cell.siphoned:
            found += calls(x + 50, y + 16, cell.spawn_count, 11, ink)
        return found
    if not cell.known:
        return [Text(x + 34, y + 46, "?", 34, ink, "middle", bold=True)]
    is_number = cell.program is None
    size = 32.0 if is_number else fitted(name, 17, 49, bold=True)
    middle = y + (38 if is_number else 34)
    opacity = 0.75 if cell.is_question else 1.0
    found = [Text(x + 34, middle, name, size, ink, "middle", bold=True, opacity=opacity)]
    if cell.is_question:
        found.append(Text(x + 12, y + 20, "?", 17, ink, "middle", bold=True))
    if cell.spawn_count and not cell.siphoned:
        found += calls(x + 34, y + 56, cell.spawn_count, 13, ink)
    return found


def _contents(cell: Cell) -> str:
    if not cell.known:
        return ""
    return str(cell.points) if cell.program is None else program_name(cell.program)


def _resources(cell: Cell, x: float, y: float, occupied: bool) -> list[Shape]:
    """Credits on the left, energy on the right; ghosts where a block covers them."""
    covered = cell.is_block and not cell.siphoned
    inks: tuple[Ink, Ink] = ("credits", "energy")
    if covered:
        ground = "program" if cell.program is not None else "data"
        ink = "text" if cell.is_question else f"on_{ground}"
        inks = (ink, ink)
    free = cell.content == Content.EMPTY and not occupied
    size = 1.35 if free else 1.0
    side = 12.0 if free or cell.is_block else 9.0
    foot, step = y + TILE - side, 10.5 * size
    return [
        *(
            coin(x + side, foot - step * each, 4.2 * size, inks[0], ghost=covered)
            for each in range(cell.credits)
        ),
        *(
            bolt(x + TILE - side, foot - step * each, 5.6 * size, inks[1], ghost=covered)
            for each in range(cell.energy)
        ),
    ]
