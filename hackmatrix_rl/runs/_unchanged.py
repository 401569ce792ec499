"""What a resumed run keeps: settings that decide what its network, games and buffer mean.

The arrays of a checkpoint fit many settings, so nothing else notices most of these changes.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from etils import epath

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play import SelfPlay
from hackmatrix_rl.checkpoints import read_arrays
from hackmatrix_rl.config import (
    FROM_SEQUENCES,
    OUTPUT_SETTINGS,
    RunConfig,
    SelfPlayConfig,
    TrainConfig,
)
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.errors import ConfigError, as_given, flag
from hackmatrix_rl.runs._work import board_in_words
from hackmatrix_rl.training import Trainer

_OF_BOARD = {"vertices": "vertices", "clique_size": "k", "full_board": "full_board"}
"""The fields of a `CliqueConfig`, and the settings that they are."""
_OF_POSITIONS = ("history", "max_enemies", "max_transmissions")
"""Settings that saved positions of a game depend on."""
_OF_NETWORK = (*("network", "width", "depth", "value_head", "aux_coefficient", "aux_victory"),)
"""Settings that decide which arrays a network has."""


def check_unchanged(run: object, stored: RunConfig, changes: Mapping[str, Any]) -> None:
    """Refuses changes of a run after which what it learned would mean something else.

    Args:
        run: its folder, or what to call it.
        stored: its settings.
        changes: settings that are to differ from them.

    Raises:
        ConfigError: one of them may not. The message names its flag.
    """
    changed = {
        name: value
        for name, value in changes.items()
        if hasattr(stored, name) and value != getattr(stored, name)
    }
    if isinstance(stored, SelfPlayConfig):
        _check_board(run, stored, changed)
    elif isinstance(stored, TrainConfig):
        _check_algorithm(run, stored, changed)
        _check_game(run, stored, changed)


def check_network(
    run: object,
    checkpoint: epath.Path,
    stored: RunConfig,
    config: RunConfig,
    policy: ActorCritic,
) -> None:
    """Refuses changed settings that make another network than a checkpoint's.

    A width that is the network's default may be written out: only the arrays decide.

    Args:
        run: the folder of the run.
        checkpoint: that it goes on from.
        stored: the settings of the run.
        config: the same with the changes.
        policy: the network of `config`.

    Raises:
        ConfigError: the arrays do not fit. The message names the flags.
    """
    changed = [
        name for name in _OF_NETWORK if getattr(config, name, None) != getattr(stored, name, None)
    ]
    if not changed or read_arrays(checkpoint, "policy").mismatch(policy) is None:
        return
    asked, was = (
        ", ".join(as_given(name, getattr(settings, name)) for name in changed)
        for settings in (config, stored)
    )
    raise ConfigError(
        f"{asked}: the run {run} was trained with {was}, which makes another network. "
        f"Leave {', '.join(map(flag, changed))} out, or begin a new run."
    )


def check_board_of(trainer: Trainer[Any], checkpoint: object, stored: RunConfig) -> None:
    """Refuses a trainer of another board of the clique game than that of a checkpoint.

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
        check_unchanged(checkpoint, stored, {_OF_BOARD[name]: board[name] for name in board})


def _check_board(run: object, stored: SelfPlayConfig, changed: Mapping[str, Any]) -> None:
    """The network and the buffer would hold positions and results of two games."""
    for name in _OF_BOARD.values():
        if name in changed:
            raise ConfigError(
                f"{flag(name)} {changed[name]}: the run {run} plays {board_in_words(stored)}. "
                f"Leave {flag(name)} out, or start a new run."
            )


def _check_algorithm(run: object, stored: TrainConfig, changed: Mapping[str, Any]) -> None:
    """What the network's outputs mean stays."""
    if "algorithm" in changed:
        raise ConfigError(
            f"--algorithm {changed['algorithm']}: the run {run} is by --algorithm "
            f"{stored.algorithm}, and a run cannot change its algorithm. Leave --algorithm "
            "out, or start a new run."
        )
    for name in OUTPUT_SETTINGS if stored.algorithm == FROM_SEQUENCES else ():
        if name in changed:
            given = as_given(name, changed[name])
            raise ConfigError(
                f"{given}: the run {run} was trained with {as_given(name, getattr(stored, name))}, "
                f"and its Q-values would mean something else. Leave {given} out, or start a new "
                "run."
            )


def _check_game(run: object, stored: TrainConfig, changed: Mapping[str, Any]) -> None:
    """What the network sees stays, and the league; and what saved positions are of.

    Other sizes of the game and another number of games need no check where no positions are saved:
    the games then begin anew.
    """
    if "observation" in changed:
        raise ConfigError(
            f"--observation {changed['observation']}: the run {run} was trained with "
            f"--observation {stored.observation}, and what its network has learned is of "
            "that one. Leave --observation out, or begin a new run."
        )
    if (league := changed.get("league")) is not None:
        raise ConfigError(
            f"--league {league}: the run {run} was trained in the league {stored.league}, and "
            "stays there. Leave --league out, or begin a new run with its weights: "
            f"hackmatrix-rl train --init {run} --league {league}"
        )
    if not (stored.frontier_share > 0 and changed.get("frontier_share", 1) > 0):
        return
    for name in _OF_POSITIONS:
        if name in changed:
            was = as_given(name, getattr(stored, name))
            raise ConfigError(
                f"{as_given(name, changed[name])}: the positions that --frontier-share "
                f"{stored.frontier_share:g} saved are of games with {was}. Give {was}, "
                f"--frontier-share 0, which drops them, or start a new run with --init {run}."
            )
