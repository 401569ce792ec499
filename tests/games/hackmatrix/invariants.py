"""What holds of any position that is played, and play that looks whether it does."""

from typing import Any

import numpy as np

from games.hackmatrix.recordings import CONFIG, report
from games.hackmatrix.replay import Replay
from games.hackmatrix.setup_checker import BLOCKS
from hackmatrix_rl.games.hackmatrix import TERM_NAMES, to_arrays

FULL_HP = np.array([2, 3, 2, 2])


def random_legal(mask, rng):
    """A uniformly random legal action in each game; 0 where there is none."""
    return np.where(mask, rng.random(mask.shape), -1).argmax(axis=1)


def on_board(values):
    """Whether row and column are."""
    return ((values >= 0) & (values <= 5)).all(axis=-1)


def violations(position):
    """Which of the invariants a batch of positions breaks."""
    player, game = position["player"], position["game"]
    cells, enemies = position["cells"], position["enemies"].astype(int)
    enemy = np.arange(enemies.shape[1]) < position["num_enemies"][:, None]
    transmissions = position["transmissions"]
    coming = np.arange(transmissions.shape[1]) < position["num_transmissions"][:, None]
    content = cells[..., 0]
    holds = {
        "player on the board": on_board(player[:, :2]),
        "hp in 0..3": (player[:, 2] >= 0) & (player[:, 2] <= 3),
        "nothing negative": (player >= 0).all(axis=1) & (game >= 0).all(axis=1),
        "stage in 1..8": (game[:, 0] >= 1) & (game[:, 0] <= 8),
        "exit on a corner": np.isin(game[:, 2:4], (0, 5)).all(axis=1),
        "history within its bound": game[:, 11] <= CONFIG.history,
        "enemies on the board": (on_board(enemies[..., 1:3]) | ~enemy).all(axis=1),
        "enemies have hp": (
            ((enemies[..., 3] >= 1) & (enemies[..., 3] <= FULL_HP[enemies[..., 0]])) | ~enemy
        ).all(axis=1),
        "transmissions on the board": (on_board(transmissions[..., :2]) | ~coming).all(axis=1),
        "nothing behind the last enemy": (~enemies.any(axis=2) | enemy).all(axis=1),
        "nothing behind the last transmission": (~transmissions.any(axis=2) | coming).all(axis=1),
        "known contents": ((content >= 0) & (content <= 6)).all(axis=1),
        "resources in 0..3, of one kind": ((cells[..., 3:5] >= 0) & (cells[..., 3:5] <= 3)).all(
            axis=(1, 2)
        )
        & ~cells[..., 3:5].all(axis=2).any(axis=1),
        "spawn counts on blocks alone": (np.isin(content, BLOCKS) | (cells[..., 2] == 0)).all(
            axis=1
        ),
    }
    return [
        f"game {record}: {name}" for name, fine in holds.items() for record in np.flatnonzero(~fine)
    ]


def play_at_random(replay: Replay, states: Any, *, steps: int, seed: int) -> None:
    """Plays on by random legal actions; every position that comes keeps the invariants."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        actions = random_legal(replay.legal(states), rng)
        states, outcome = replay.step(states, actions, seed % 100_000 + step)
        lines = violations(to_arrays(states))
        assert not lines, f"step {step}: {report(lines)}"
        terms = dict(zip(TERM_NAMES, outcome["terms"].T, strict=True))
        assert np.isfinite(outcome["terms"]).all(), f"step {step}"
        assert (terms["resource_holding"] >= 0).all(), f"step {step}"
        assert (terms["victory"] >= 0).all(), f"step {step}"
