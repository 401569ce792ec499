"""`hackmatrix-rl ui`."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from hackmatrix_rl import env as envs
from hackmatrix_rl import evaluation, runs, system
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify
from hackmatrix_rl.cli._options import modules_option, seed_option, trust_option, whole_number
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.system.errors import ConfigError, NoCheckpointError, as_given, in_shell
from hackmatrix_rl.view import ui
from hackmatrix_rl.view.ui import PORT


@click.command("ui", cls=Command)
@click.argument("agent", metavar="[AGENT]", required=False)
@click.option(
    "--clique",
    is_flag=True,
    help="The clique game, on a board for two people. A run of that game needs no flag.",
)
@click.option(
    "--vertices", type=int, metavar="NUMBER", help="Vertices of that board.  [default: 6]"
)
@click.option(
    "--k", type=int, metavar="NUMBER", help="Vertices of the clique on that board.  [default: 3]"
)
@click.option(
    "--full-board",
    metavar="TEXT",
    help="Result of that board if it is full: draw or second-wins.  [default: draw]",
)
@click.option(
    "--objective",
    metavar="TEXT",
    help="Objective on that board: form, the owner of a clique wins; avoid, the owner loses.  "
    "[default: form]",
)
@whole_number("--port", 0, 65535, "Port on 127.0.0.1; 0 selects any free port.", default=PORT)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@seed_option("Seed of the first game. By default it is random.")
@modules_option
@trust_option
def ui_command(
    agent: str | None,
    clique: bool,
    port: int,
    no_browser: bool,
    seed: int | None,
    modules: str | None,
    trust_code: bool,
    **board: Any,
) -> None:
    """Play in the browser, watch an agent, take over from it.

    AGENT is a run (its folder, or its name under runs/), a checkpoint, pretrained, a script
    (random, runner, expert) or "search(pretrained, 30)". It plays from the start; without one,
    you play. You can change it on the page. With a run of the clique game, the page is its board,
    and you play against its search. With a run of another environment, you watch its games.

    The server listens on 127.0.0.1 only, and answers only requests with the token in the address.
    It needs pip install '.[ui]'.
    """
    system.enable_compilation_cache()
    given = {name: value for name, value in board.items() if value is not None}
    opponent = _opponent(agent, clique, trust_code)
    if modules is not None and (agent is None or opponent is not None or clique):
        raise ConfigError(
            f"--agent {modules}: goes with a run that hm.SaveRun has written: "
            f"{in_shell('hackmatrix-rl', 'ui', 'RUN', '--agent', modules)}"
        )
    make: Callable[..., ui.Served]
    if opponent is not None or clique:
        make = _clique_table(agent, opponent, given, seed)
    elif given:
        said = as_given(*next(iter(given.items())))
        raise ConfigError(f"{said}: only for the clique game. Add --clique.")
    else:
        make = _games(agent, modules, trust_code, seed)
    if not ui.serve(make, port=port, browser=not no_browser, report=click.echo):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _games(
    agent: str | None, modules: str | None, trust_code: bool, seed: int | None
) -> "Callable[..., ui.Served]":
    """Makes the table of HackMatrix, or the page of an agent's games in another environment."""
    how: dict[str, Any] = {"trust_code": trust_code, "report": notify}
    if agent is not None:
        with Working(f"loading {agent}", lines=False):
            player, environment = runs.find_player(agent, modules=modules, **how)
        if not isinstance(environment, envs.HackMatrix):
            return partial(ui.Games, player, environment, name=agent, seed=seed, report=notify)

    def find(name: str) -> tuple[evaluation.Agent, envs.HackMatrix]:
        if name == agent:
            assert isinstance(environment, envs.HackMatrix)
            return player, environment
        with Working(f"loading {name}", lines=False):
            return runs.find_hackmatrix_player(name, **how)

    return partial(ui.Table, find, seed=seed, agent=agent)


def _opponent(agent: str | None, clique: bool, trust_code: bool) -> "evaluation.Opponent | None":
    """The player of the clique game, if the agent is a run of it."""
    if agent is None:
        return None
    try:
        with Working(f"loading {agent}", lines=False):
            found = runs.find_opponent(agent, trust_code=trust_code, report=notify)
    except NoCheckpointError as error:
        if not clique:
            return None  # a script, or a search
        raise ConfigError(
            f"--clique: {agent} is no run of the clique game. Name a run of "
            f"{runs.two_players_command()}, or none: then two people play."
        ) from error
    if found is None and clique:
        raise ConfigError(
            f"--clique: {agent} plays another game. Leave --clique out: "
            f"{in_shell('hackmatrix-rl', 'ui', agent)}"
        )
    return found


def _clique_table(
    agent: str | None,
    opponent: "evaluation.Opponent | None",
    given: Mapping[str, Any],
    seed: int | None,
) -> "Callable[..., ui.CliqueTable]":
    """Makes the board of the clique game: the run's, or one for two people."""
    if seed is not None:
        raise ConfigError(f"--seed {seed}: the clique game draws nothing. Leave --seed out.")
    if opponent is None:
        untrained = runs.untrained_opponent(given)
        return partial(ui.CliqueTable, untrained, name="an untrained network", seat="both")
    if given:
        said = as_given(*next(iter(given.items())))
        raise ConfigError(f"{said}: the run {agent} defines the board. Leave it out.")
    return partial(ui.CliqueTable, opponent, name=str(agent))
