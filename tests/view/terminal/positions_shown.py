"""Positions that show what a board can show."""

from game.positions import block_of, daemon, data, glitch, position, transmission, virus
from game.recordings import CONFIG

from hackmatrix_rl.game import ENEMY_HP, Content, EnemyType, Program, State, from_arrays
from hackmatrix_rl.view import Frame, frame_of


def state_of(**given: object) -> State:
    """The game of a position that `game.positions.position` describes."""
    arrays = {name: array[0] for name, array in position(**given).items()}
    return from_arrays(CONFIG, arrays)


def busy() -> State:
    """Everything at once: stacked, hidden and stunned enemies, every kind of cell."""
    cryptog = {
        "type": int(EnemyType.CRYPTOG), "hp": ENEMY_HP[EnemyType.CRYPTOG],
        "row": 5, "col": 5, "last_known_row": 4, "last_known_col": 4,
    }  # fmt: skip
    return state_of(
        player=(2, 2),
        exit=(5, 0),
        enemies=[
            virus(2, 4),
            daemon(5, 2, stunned=1),
            glitch(3, 3, disabled_turns=2, spawned_from_siphon=1),
            virus(3, 3, from_scheduled_task=1),
            cryptog,
            daemon(1, 2, hp=1),
        ],
        transmissions=[
            transmission(0, 4, EnemyType.DAEMON, turns_remaining=12),
            transmission(2, 0, EnemyType.VIRUS),
        ],
        cells={
            (2, 1): {"credits": 3},
            (3, 2): {"energy": 1},
            (2, 2): {"energy": 2},
            (2, 3): {"credits": 1, "siphoned": 1},
            (1, 1): {"siphoned": 1, "siphon_center": 1},
            (3, 3): block_of(Program.ANTI_V, 4),
            (1, 3): data(9),
            (4, 1): block_of(Program.CRASH, 6),
            (4, 3): {"content": int(Content.HIDDEN_DATA), "value": 7, "spawn_count": 7},
            (1, 4): {"content": int(Content.HIDDEN_PROGRAM), "value": 18, "spawn_count": 4},
            (0, 1): {"content": int(Content.DATA), "value": 3, "siphoned": 1, "credits": 2},
            (0, 0): {"content": int(Content.PICKUP), "credits": 2},
            (0, 5): {"content": int(Content.PICKUP), "energy": 3, "siphoned": 1},
        },
        programs=[Program.PUSH, Program.CRASH, Program.UNDO, Program.ROW, Program.STEP],
        credits=3,
        energy=2,
        data_siphons=1,
        score=17,
        stage=3,
        turn=5,
        hp=2,
    )


def crowded() -> Frame:
    """All programs, the largest numbers."""
    return frame_of(
        state_of(
            player=(0, 0),
            programs=list(Program),
            enemies=[virus(0, 1) for _ in range(20)],
            credits=10**9,
            energy=10**9,
            data_siphons=10**9,
            score=10**9,
            attack_damage=10**9,
            turn=10**9,
            hp=1,
        )
    )
