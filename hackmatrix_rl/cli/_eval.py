"""`hackmatrix-rl eval`."""

import json
from functools import partial

import click
import jax
from rich.console import Console

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._settings import trust_option
from hackmatrix_rl.cli._summary import (
    summary_table,
)
from hackmatrix_rl.config import (
    COUNTED,
    MOST_EPISODES,
)
from hackmatrix_rl.evaluation import (
    evaluate,
)
from hackmatrix_rl.runs import check_played, find_player
from hackmatrix_rl.system import enable_compilation_cache


@click.command("eval", cls=Command)
@click.argument("target", metavar="RUN_OR_CHECKPOINT|random|runner")
@click.option(
    "--episodes",
    type=click.IntRange(1, MOST_EPISODES),
    metavar="NUMBER",
    default=1000,
    show_default=True,
    help="Games to play.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="NUMBER",
    default=0,
    show_default=True,
    help="Seed of the games and of the policy's draws.",
)
@click.option("--greedy", is_flag=True, help="Take the most likely action instead of drawing one.")
@click.option(
    "--num-envs",
    type=click.IntRange(1, COUNTED),
    metavar="NUMBER",
    default=1024,
    show_default=True,
    help="Games played in parallel; fewer need less memory. The result does not depend on it.",
)
@click.option(
    "--best",
    is_flag=True,
    help="Use the run's checkpoint with the highest mean return (kept by train --keep-best) "
    "instead of the newest.",
)
@click.option(
    "--network",
    metavar="TEXT",
    help="The run's network. Naming your own (my_module:factory) allows it to be imported.",
)
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def evaluate_command(
    target: str,
    episodes: int,
    seed: int,
    greedy: bool,
    num_envs: int,
    best: bool,
    network: str | None,
    trust_code: bool,
    as_json: bool,
) -> None:
    """Measure how well a policy plays: return, stage reached, win rate, score, length.

    The policy is a run (its folder, or its name under runs/; its newest checkpoint plays), one
    checkpoint, or a script: random draws among the legal actions, runner fights what stands
    next to it and walks to the exit.

    Each environment plays one game to its end, so that short games do not count more.
    Intervals are 95%: normal approximation for means, Wilson's for the win rate.
    """
    policy, environment = find_player(
        target,
        network=network,
        trust_code=trust_code,
        best=best,
        report=partial(click.echo, err=True),
    )
    check_played(environment, min(num_envs, episodes))
    enable_compilation_cache()
    found = evaluate(
        policy,
        environment,
        episodes=episodes,
        key=jax.random.key(seed),
        num_envs=num_envs,
        greedy=greedy,
    )
    if found.unfinished:
        click.echo(f"{found.unfinished} games were cut off unfinished.", err=True)
    if as_json:
        click.echo(json.dumps(found.as_dict(), allow_nan=False))
    else:
        table = summary_table({target: found}, title=f"{episodes:,} games, 95% intervals")
        Console().print(table)
