"""The player that `eval`, `analyze` and `watch` ask for: the options, and how it is loaded."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from hackmatrix_rl.cli._failures import tell
from hackmatrix_rl.cli._run_options import checkpoint_options, trust_option
from hackmatrix_rl.cli._settings import league_option
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import Agent, PolicyAgent

E = TypeVar("E", bound=Environment)
F = TypeVar("F", bound=Callable[..., Any])


PLAYER_OPTIONS = ("best", "network", "league", "trust_code", "search")
"""What `player_options` gives a command."""


def player_options(command: F) -> F:
    """Gives a command the options that `chosen_player` takes, but `--greedy`."""
    return search_option(checkpoint_options(league_option(trust_option(command))))


def search_option(command: F) -> F:
    """Gives a command `--search`."""
    return click.option(
        "--search",
        type=int,
        metavar="NUMBER",
        help="A network tries this many actions out before each move, in a tree search with its "
        "own probabilities and values (try 32). By default it moves at once.",
    )(command)


def named(player: str, search: int | None) -> str:
    """The display name of a player."""
    return player if search is None else f"{player} --search {search}"


def chosen_player(
    work: Working,
    name: str,
    *,
    greedy: bool = False,
    search: int | None = None,
    find: Callable[..., tuple[Agent, E]],
    **chosen: Any,
) -> tuple[Agent, E]:
    """A player, and the environment that it plays in.

    Args:
        work: tells of checkpoints that are skipped.
        name: see `find_player`.
        greedy: whether a network takes its likeliest action.
        search: as `simulations` for `find_player`.
        find: `find_player`, or `find_hackmatrix_player`.
        chosen: the values of `player_options`.

    Raises:
        ConfigError: there is no such player, or it does not play in that league.
    """
    player, environment = find(
        name, simulations=search, report=lambda message: work.say(message, tell), **chosen
    )
    if greedy and isinstance(player, PolicyAgent):
        player = replace(player, greedy=True)
    return player, environment
