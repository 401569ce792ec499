"""A run of self-play keeps its board."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hackmatrix_rl.config import RunConfig, SelfPlayConfig
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.errors import ConfigError, flag
from hackmatrix_rl.runs._work import board_in_words
from hackmatrix_rl.self_play import SelfPlay
from hackmatrix_rl.training import Trainer

_SETTINGS = {"vertices": "vertices", "clique_size": "k", "full_board": "full_board"}
"""The fields of a `CliqueConfig`, and the settings that they are."""


def check_same_board(run: object, stored: RunConfig, changes: Mapping[str, Any]) -> None:
    """Refuses another board or variant than that of a run.

    Its network and its buffer would hold positions and results of two games. The arrays of boards
    with as many vertices fit one another, so nothing else notices.

    Args:
        run: what to call the run.
        stored: the settings of the run.
        changes: settings that are to differ from them.

    Raises:
        ConfigError: one of them is of the board.
    """
    if not isinstance(stored, SelfPlayConfig):
        return
    for name in _SETTINGS.values():
        if name in changes and changes[name] != getattr(stored, name):
            raise ConfigError(
                f"{flag(name)} {changes[name]}: the run {run} plays {board_in_words(stored)}. "
                f"Leave {flag(name)} out, or start a new run."
            )


def check_board_of(trainer: Trainer[Any], checkpoint: object, stored: RunConfig) -> None:
    """Refuses a trainer of another board than that of a checkpoint.

    Args:
        trainer: of any algorithm.
        checkpoint: what to call the checkpoint.
        stored: the settings in its metadata.

    Raises:
        ConfigError: both are of self-play, and the boards differ.
    """
    algorithm = trainer.algorithm
    if isinstance(algorithm, SelfPlay) and isinstance(algorithm.game, CliqueGame):
        board = asdict(algorithm.game.config)
        check_same_board(checkpoint, stored, {_SETTINGS[name]: board[name] for name in board})
