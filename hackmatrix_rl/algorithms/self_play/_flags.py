"""The flags of `hackmatrix-rl selfplay`, which need no JAX."""

from typing import Any

import click

from hackmatrix_rl import cli
from hackmatrix_rl.algorithms.self_play._config import SelfPlayConfig


@click.command(cls=cli.GroupedOptions)
@cli.config_options({SelfPlayConfig.algorithm: SelfPlayConfig}, cli.GROUPS, preset=None)
@click.option(
    "--show-game",
    is_flag=True,
    help="Train nothing: play one game without compilation and print it move by move, for the "
    "untrained network or that of --resume-run.",
)
@cli.run_options
@click.pass_context
def selfplay(context: click.Context, /, show_game: bool, **given: Any) -> int:
    """Learn the clique game by playing against itself (AlphaZero with Gumbel search).

    Two players colour the edges of a complete graph in turn; who first has a clique of k vertices
    wins, or loses with --objective avoid. A network guides a search, and learns what the search
    finds and who wins. At the end the networks of the run meet in a league. The run works like
    one of `hackmatrix-rl train`: it is watched, stopped and resumed in the same ways, with the
    same exit status.
    """
    from hackmatrix_rl.algorithms.self_play import _command as command

    if show_game:
        command.play_shown_game(context, **given)
        return 0
    task = cli.Task(
        command=SelfPlayConfig.command,
        choose=lambda file, target: command.chosen_settings(context, file, target),
        check=lambda config: None,
        explain=lambda config: [],
        describe=command.describe,
        summarize=command.summarize,
        advice=command.advice,
    )
    return cli.run_task(context, task, **given)
