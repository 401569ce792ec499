"""The player, enemies and transmissions as shapes."""

from collections.abc import Callable
from dataclasses import dataclass

from hackmatrix_rl.game import ENEMY_HP, EnemyType
from hackmatrix_rl.view._drawing import Circle, Ink, Line, Rect, Shape, Text
from hackmatrix_rl.view._frame import Enemy, Frame, Transmission
from hackmatrix_rl.view._marks import Point, plus, polygon

ENEMY_INK: dict[EnemyType, Ink] = {
    EnemyType.VIRUS: "virus",
    EnemyType.DAEMON: "daemon",
    EnemyType.GLITCH: "glitch",
    EnemyType.CRYPTOG: "cryptog",
}
_RADIUS = 18.0

# Corner, square, diamond, hexagon: an enemy is known by its outline and its letter.
_OUTLINES: dict[EnemyType, tuple[Point, ...]] = {
    EnemyType.VIRUS: ((-1.05, -0.85), (1.05, -0.85), (0.0, 1.0)),
    EnemyType.DAEMON: ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    EnemyType.GLITCH: ((0.0, -1.1), (1.1, 0.0), (0.0, 1.1), (-1.1, 0.0)),
    EnemyType.CRYPTOG: (
        (-0.5, -0.95),
        (0.5, -0.95),
        (1.05, 0.0),
        (0.5, 0.95),
        (-0.5, 0.95),
        (-1.05, 0.0),
    ),
}


@dataclass(frozen=True)
class Actor:
    """Something on a cell that is no part of the board.

    Attributes:
        draw: makes its shapes, from a center and a scale.
    """

    draw: Callable[[float, float, float], list[Shape]]


def actors_on(frame: Frame, cell: int) -> list[Actor]:
    """What stands on a cell, what the player sees first."""
    enemies = [each for each in frame.enemies if each.cell == cell]
    transmissions = [each for each in frame.transmissions if each.cell == cell]
    found: list[tuple[bool, Actor]] = []
    if frame.player_cell == cell:
        found.append((True, Actor(_player)))
    found += [(each.visible, _enemy_actor(each)) for each in enemies]
    found += [(each.visible, _transmission_actor(each)) for each in transmissions]
    # Sorting keeps the order of arrival.
    return [actor for _, actor in sorted(found, key=lambda each: not each[0])]


def _enemy_actor(enemy: Enemy) -> Actor:
    return Actor(lambda x, y, scale: _enemy(enemy, x, y, scale))


def _transmission_actor(transmission: Transmission) -> Actor:
    return Actor(lambda x, y, scale: _transmission(transmission, x, y, scale))


def _player(x: float, y: float, scale: float) -> list[Shape]:
    radius = _RADIUS * scale
    return [
        Circle(x, y, radius + 6 * scale, fill="cell", stroke="player", stroke_width=3 * scale),
        Circle(x, y, radius, fill="player"),
        Text(x, y + 7.5 * scale, "@", 22 * scale, "on_player", "middle", bold=True),
    ]


def _enemy(enemy: Enemy, x: float, y: float, scale: float) -> list[Shape]:
    radius = _RADIUS * scale
    ink = ENEMY_INK[enemy.type]
    ghost = not enemy.visible
    letter_y = y + (3.5 if enemy.type == EnemyType.VIRUS else 6.2) * scale
    return [
        Circle(x, y, radius * 1.22, fill="cell"),
        polygon(x, y, radius, _OUTLINES[enemy.type], ink, ghost=ghost),
        Text(
            x,
            letter_y,
            enemy.type.name[0],
            17 * scale,
            ink if ghost else "on_enemy",
            "middle",
            bold=True,
        ),
        *_hit_points(enemy, x, y + radius + 5 * scale, scale),
        *_state(enemy, x, y, scale),
    ]


def _hit_points(enemy: Enemy, x: float, y: float, scale: float) -> list[Shape]:
    """A pip for each hp, hollow if lost."""
    most = max(int(ENEMY_HP[enemy.type]), enemy.hp)
    ink = ENEMY_INK[enemy.type]
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
    """Signs for stunned, disabled, and brought by a siphon."""
    shapes: list[Shape] = []
    right, left = x + 21 * scale, x - 21 * scale
    top = y - 15 * scale
    if enemy.disabled_turns:
        shapes += _badge(right, top, scale, "")
        shapes += [
            Line(((right + each, top - 4 * scale), (right + each, top + 4 * scale)), "cell", 2.4)
            for each in (-2.6 * scale, 2.6 * scale)
        ]
    elif enemy.stunned:
        shapes += _badge(right, top, scale, "z")
    if enemy.spawned_from_siphon:
        shapes += [Circle(left, top, 8 * scale, fill="cell"), plus(left, top, 6 * scale)]
    return shapes


def _badge(x: float, y: float, scale: float, text: str) -> list[Shape]:
    return [
        Circle(x, y, 8.5 * scale, fill="text", stroke="cell", stroke_width=1.5 * scale),
        Text(x, y + 4.2 * scale, text, 13 * scale, "cell", "middle", bold=True),
    ]


def _transmission(transmission: Transmission, x: float, y: float, scale: float) -> list[Shape]:
    """A dashed ring with the turns that are left, and the type if it is known."""
    radius = _RADIUS * scale
    turns = str(transmission.turns_remaining)
    size = min(19.0, 44 / max(1, len(turns))) * scale
    opacity = 1.0 if transmission.visible else 0.7
    shapes: list[Shape] = [
        Circle(x, y, radius * 1.22, fill="cell"),
        Circle(
            x,
            y,
            radius,
            stroke="transmission",
            stroke_width=2 * scale,
            dashed=True,
            opacity=opacity,
        ),
        Text(x, y + size * 0.36, turns, size, "transmission", "middle", bold=True, opacity=opacity),
    ]
    if transmission.type is not None:
        shapes += _coming(transmission.type, x, y + radius, scale, transmission.type_visible)
    if transmission.spawned_from_siphon:
        left, top = x - 21 * scale, y - 15 * scale
        shapes += [Circle(left, top, 8 * scale, fill="cell"), plus(left, top, 6 * scale)]
    return shapes


def _coming(kind: EnemyType, x: float, y: float, scale: float, known: bool) -> list[Shape]:
    """The type of a transmission: a ghost if the player does not know it."""
    ink = ENEMY_INK[kind]
    baseline = y + (2.0 if kind == EnemyType.VIRUS else 3.6) * scale
    return [
        Circle(x, y, 11.5 * scale, fill="cell"),
        polygon(x, y, 9.5 * scale, _OUTLINES[kind], ink, ghost=not known),
        Text(
            x, baseline, kind.name[0], 10 * scale, "on_enemy" if known else ink, "middle", bold=True
        ),
    ]
