"""The flags of `hackmatrix-rl selfplay`, which do not import JAX."""

from typing import Any

import click

from hackmatrix_rl import cli
from hackmatrix_rl.algorithms.self_play._config import SelfPlayConfig


@click.command(cls=cli.GroupedOptions)
@cli.config_options({SelfPlayConfig.algorithm: SelfPlayConfig}, cli.GROUPS, preset=None)
@click.option(
    "--show-game",
    is_flag=True,
    help="Do not train: play one game without compilation and print each move, with the untrained "
    "network or the one of --resume-run.",
)
@cli.run_options
@click.pass_context
def selfplay(context: click.Context, /, show_game: bool, **given: Any) -> int:
    """Learn the clique game by self-play (AlphaZero with Gumbel search).

    Two players alternately colour the edges of a complete graph. The first to complete a clique of
    k vertices wins, or loses with --objective avoid. A network guides a tree search, and learns the
    search policy and the result of the game. At the end, snapshots of the network play a league.
    The run is watched, stopped and resumed like a run of `hackmatrix-rl train`, with the same exit
    status.
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
