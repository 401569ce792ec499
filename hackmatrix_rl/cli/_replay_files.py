"""Replays that a command is given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Replay

F = TypeVar("F", bound=Callable[..., Any])


def takeover_options(command: F) -> F:
    """Gives a command `--from` (as `source`) and `--move`."""
    for option in (
        click.option(
            "--move",
            type=click.IntRange(0),
            metavar="NUMBER",
            help="Moves of the replay that are played first; the default is all.",
        ),
        click.option(
            "--from",
            "source",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Take a replay over and go on, instead of a new game.",
        ),
    ):
        command = option(command)
    return command


def given_replay(file: Path | None, move: int | None, **new_game: int | None) -> Replay | None:
    """The replay of `--from` and `--move`.

    Args:
        file: `--from`.
        move: `--move`.
        new_game: the flags that choose a new game, by name: `seed`.

    Raises:
        ConfigError: the flags do not fit together, or the file is no replay of these rules.
    """
    if file is None:
        if move is not None:
            raise ConfigError(f"--move {move} needs a replay: add --from FILE.")
        return None
    for name, value in new_game.items():
        if value is not None:
            raise ConfigError(
                f"--{name} {value}: a replay has its own seed. Leave out --{name} or --from."
            )
    replay = Replay.load(file)
    replay.check_move(move)
    return replay


def league_to_play(replay: Replay | None, chosen: str | None = None) -> str | None:
    """The league in which an agent must play: that of the replay, or the chosen one.

    Args:
        replay: what the agent takes over or thinks about; `None` for a new game.
        chosen: `--league`.

    Raises:
        ConfigError: they differ.
    """
    if replay is None:
        return chosen
    league = replay.config.league
    if chosen not in (None, league):
        raise ConfigError(
            f"--league {chosen}: the replay is a game of the league {league}. Leave --league out."
        )
    return league


def played_again(
    file: Path,
    replay: Replay,
    move: int | None,
    on_move: Callable[[int, int], None] = lambda done, total: None,
) -> Match:
    """The game of a replay.

    Args:
        file: of the replay.
        replay: from the file.
        move: number of moves to play; by default all, and then the end is checked.
        on_move: told the number of moves played, and of all moves.

    Raises:
        ConfigError: the replay cannot be played again; the message names the file.
    """
    try:
        return replay.match(move, on_move=on_move)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}.") from error
