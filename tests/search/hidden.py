"""Positions that look alike to a person at the screen."""

from typing import Any

from games.hackmatrix.positions import block_of, position, transmission, virus

from hackmatrix_rl.games.hackmatrix import Content, EnemyType, Program


def look_alikes() -> list[dict[str, Any]]:
    """Three games that differ in what is hidden, with a siphon that reaches a question block.

    They differ in what the block holds, in the type of a transmission, and in where a hidden
    cryptog stands.
    """
    return [_hidden(9, 0, (4, 4)), _hidden(1, 3, (5, 4)), _hidden(5, 1, (4, 5))]


def _hidden(points: int, kind: int, cell: tuple[int, int]) -> dict[str, Any]:
    cryptog = virus(*cell) | {"type": int(EnemyType.CRYPTOG)}
    question = {"content": int(Content.HIDDEN_DATA), "value": points, "spawn_count": points}
    return position(
        (2, 1),
        cells={(2, 2): question, (3, 1): block_of(Program.ROW, 2)},
        enemies=[virus(5, 1), cryptog | {"last_known_row": 4, "last_known_col": 4}],
        transmissions=[transmission(0, 3, EnemyType(kind))],
        data_siphons=1,
        credits=9,
        energy=9,
        programs=[Program.CRASH, Program.WAIT],
    )
