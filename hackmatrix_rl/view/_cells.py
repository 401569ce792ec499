"""Draws a cell of the board and the actors on it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hackmatrix_rl.games.hackmatrix import ENEMY_HP, Content, EnemyType
from hackmatrix_rl.view._drawing import Circle, Ink, Line, Rect, Shape, Text
from hackmatrix_rl.view._frame import Cell, Enemy, Frame, Transmission
from hackmatrix_rl.view._marks import (
    Point,
    bold,
    bolt,
    calls,
    coin,
    door,
    fitted,
    hexagon,
    pickup,
    plus,
    polygon,
)
from hackmatrix_rl.view._names import program_name

TILE = 68.0
"""The side of a cell in pixels."""

_RADIUS = 18.0
# Triangle, square, diamond, hexagon: outline and letter identify an enemy without its colour.
_OUTLINES: dict[EnemyType, tuple[Point, ...]] = {
    EnemyType.VIRUS: ((-1.05, -0.85), (1.05, -0.85), (0.0, 1.0)),
    EnemyType.DAEMON: ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    EnemyType.GLITCH: ((0.0, -1.1), (1.1, 0.0), (0.0, 1.1), (-1.1, 0.0)),
    EnemyType.CRYPTOG: hexagon(0.5, 1.05, 0.95),
}
Actor = Callable[[float, float, float], list[Shape]]
"""Returns the shapes of an actor on a cell, from a center and a scale."""


def tile(cell: Cell, x: float, y: float, *, occupied: bool) -> list[Shape]:
    """The shapes of one cell. If it is occupied, labels are at its edges."""
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
    solid = not cell.siphoned and not cell.is_question
    inset = 5.0 if kind == "program" else 2.0
    block = Rect(x + inset, y + inset, TILE - 2 * inset, TILE - 2 * inset, 8, fill=kind)
    if not solid:
        dashed = cell.is_question
        block = replace(block, fill=None, stroke=kind, stroke_width=2.0, dashed=dashed)
    shapes: list[Shape] = [*(_pins(x, y) if kind == "program" else []), block]
    return shapes + _label(cell, x, y, f"on_{kind}" if solid else "text", occupied)


def _pins(x: float, y: float) -> list[Shape]:
    """The pins of a chip, around a program block."""
    found: list[Shape] = []
    for place in (20.0, 34.0, 48.0):
        for start, end in ((0.0, 5.0), (TILE - 5, TILE)):
            found.append(Line(((x + start, y + place), (x + end, y + place)), "program", 3.0))
            found.append(Line(((x + place, y + start), (x + place, y + end)), "program", 3.0))
    return found


def _label(cell: Cell, x: float, y: float, ink: Ink, occupied: bool) -> list[Shape]:
    """The contents of a block as text."""
    name = _contents(cell)
    if occupied:
        label = f"? {name}".strip() if cell.is_question else name
        size = fitted(label, 12, 27, bold=True)
        found: list[Shape] = [Text(x + 8, y + 16, label, size, ink, bold=True)]
        if cell.known and cell.spawn_count and not cell.siphoned:
            found += calls(x + 50, y + 16, cell.spawn_count, 11, ink)
        return found
    if not cell.known:
        return [bold(x + 34, y + 46, "?", 34, ink)]
    is_number = cell.program is None
    size = 32.0 if is_number else fitted(name, 17, 49, bold=True)
    middle = y + (38 if is_number else 34)
    opacity = 0.75 if cell.is_question else 1.0
    found = [bold(x + 34, middle, name, size, ink, opacity)]
    if cell.is_question:
        found.append(bold(x + 12, y + 20, "?", 17, ink))
    if cell.spawn_count and not cell.siphoned:
        found += calls(x + 34, y + 56, cell.spawn_count, 13, ink)
    return found


def _contents(cell: Cell) -> str:
    if not cell.known:
        return ""
    return str(cell.points) if cell.program is None else program_name(cell.program)


def _resources(cell: Cell, x: float, y: float, occupied: bool) -> list[Shape]:
    """Credits on the left, energy on the right; ghosts under a block."""
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
    left, right = x + side, x + TILE - side
    heights = [foot - step * number for number in range(max(cell.credits, cell.energy))]
    coins = [coin(left, y, 4.2 * size, inks[0], ghost=covered) for y in heights[: cell.credits]]
    bolts = [bolt(right, y, 5.6 * size, inks[1], ghost=covered) for y in heights[: cell.energy]]
    return coins + bolts


def actors_on(frame: Frame, cell: int) -> list[Actor]:
    """The actors on a cell; those that the player sees come first."""
    others: list[Actor] = [
        partial(_enemy, each) if isinstance(each, Enemy) else partial(_transmission, each)
        for each in frame.entities_on(cell)
    ]
    return [_player, *others] if frame.player_cell == cell else others


def _player(x: float, y: float, scale: float) -> list[Shape]:
    radius = _RADIUS * scale
    return [
        Circle(x, y, radius + 6 * scale, fill="cell", stroke="player", stroke_width=3 * scale),
        Circle(x, y, radius, fill="player"),
        bold(x, y + 7.5 * scale, "@", 22 * scale, "on_player"),
    ]


def _enemy(enemy: Enemy, x: float, y: float, scale: float) -> list[Shape]:
    radius = _RADIUS * scale
    ink = enemy.type.name.lower()
    ghost = not enemy.visible
    letter_y = y + (3.5 if enemy.type == EnemyType.VIRUS else 6.2) * scale
    return [
        Circle(x, y, radius * 1.22, fill="cell"),
        polygon(x, y, radius, _OUTLINES[enemy.type], ink, ghost=ghost),
        bold(x, letter_y, enemy.type.name[0], 17 * scale, ink if ghost else "on_enemy"),
        *_hit_points(enemy, x, y + radius + 5 * scale, scale),
        *_state(enemy, x, y, scale),
    ]


def _hit_points(enemy: Enemy, x: float, y: float, scale: float) -> list[Shape]:
    """A dot for each hp, hollow if lost."""
    most = max(int(ENEMY_HP[enemy.type]), enemy.hp)
    ink = enemy.type.name.lower()
    width = (most * 9 + 3) * scale
    shapes: list[Shape] = [
        Rect(x - width / 2, y - 5 * scale, width, 10 * scale, 5 * scale, fill="cell")
    ]
    for number in range(most):
        center = x + (number - (most - 1) / 2) * 9 * scale
        if number < enemy.hp:
            shapes.append(Circle(center, y, 3.2 * scale, fill=ink))
        else:
            shapes.append(Circle(center, y, 2.6 * scale, stroke=ink, stroke_width=1.2 * scale))
    return shapes


def _state(enemy: Enemy, x: float, y: float, scale: float) -> list[Shape]:
    """Badges for stunned, disabled, and spawned from a siphon."""
    shapes: list[Shape] = []
    right, top = x + 21 * scale, y - 15 * scale
    if enemy.disabled_turns:
        shapes += _badge(right, top, scale, "")
        shapes += [
            Line(((right + each, top - 4 * scale), (right + each, top + 4 * scale)), "cell", 2.4)
            for each in (-2.6 * scale, 2.6 * scale)
        ]
    elif enemy.stunned:
        shapes += _badge(right, top, scale, "z")
    return shapes + (_by_siphon(x, y, scale) if enemy.spawned_from_siphon else [])


def _by_siphon(x: float, y: float, scale: float) -> list[Shape]:
    """The badge of an enemy or transmission that a siphon called."""
    left, top = x - 21 * scale, y - 15 * scale
    return [Circle(left, top, 8 * scale, fill="cell"), plus(left, top, 6 * scale)]


def _badge(x: float, y: float, scale: float, text: str) -> list[Shape]:
    return [
        Circle(x, y, 8.5 * scale, fill="text", stroke="cell", stroke_width=1.5 * scale),
        bold(x, y + 4.2 * scale, text, 13 * scale, "cell"),
    ]


def _transmission(transmission: Transmission, x: float, y: float, scale: float) -> list[Shape]:
    """A dashed ring with the remaining turns, and the type if it is known."""
    radius = _RADIUS * scale
    turns = str(transmission.turns_remaining)
    size = min(19.0, 44 / max(1, len(turns))) * scale
    opacity = 1.0 if transmission.visible else 0.7
    ring = Circle(x, y, radius, stroke="transmission", stroke_width=2 * scale, dashed=True)
    shapes: list[Shape] = [
        Circle(x, y, radius * 1.22, fill="cell"),
        replace(ring, opacity=opacity),
        bold(x, y + size * 0.36, turns, size, "transmission", opacity),
    ]
    if transmission.type is not None:
        shapes += _coming(transmission.type, x, y + radius, scale, transmission.type_visible)
    return shapes + (_by_siphon(x, y, scale) if transmission.spawned_from_siphon else [])


def _coming(kind: EnemyType, x: float, y: float, scale: float, known: bool) -> list[Shape]:
    """The type of a transmission; a ghost if the player does not know it."""
    ink = kind.name.lower()
    baseline = y + (2.0 if kind == EnemyType.VIRUS else 3.6) * scale
    return [
        Circle(x, y, 11.5 * scale, fill="cell"),
        polygon(x, y, 9.5 * scale, _OUTLINES[kind], ink, ghost=not known),
        bold(x, baseline, kind.name[0], 10 * scale, "on_enemy" if known else ink),
    ]
