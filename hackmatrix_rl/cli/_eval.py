"""`hackmatrix-rl eval`."""

import json
from functools import partial

import click
import jax
from rich.console import Console

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.checkpoints import load
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._settings import trust_option
from hackmatrix_rl.cli._summary import (
    summary_table,
)
from hackmatrix_rl.config import (
    COUNTED,
    MOST_EPISODES,
    TrainConfig,
)
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import (
    Agent,
    RandomAgent,
    Runner,
    evaluate,
)
from hackmatrix_rl.runs import check_played, make_environment
from hackmatrix_rl.system import enable_compilation_cache

BASELINES: dict[str, type[Agent]] = {"random": RandomAgent, "runner": Runner}


@click.command("eval", cls=Command)
@click.argument("target", metavar="RUN_OR_CHECKPOINT|random|runner")
@click.option(
    "--episodes",
    type=click.IntRange(1, MOST_EPISODES),
    default=1000,
    show_default=True,
    help="Games to play.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Decides the games and all draws.",
)
@click.option("--greedy", is_flag=True, help="Take the likeliest action instead of drawing one.")
@click.option(
    "--num-envs",
    type=click.IntRange(1, COUNTED),
    default=1024,
    show_default=True,
    help="Games side by side; fewer need less memory. The result does not depend on it.",
)
@click.option(
    "--best",
    is_flag=True,
    help="Of a run, the checkpoint with the highest mean return (kept by train --keep-best) "
    "rather than the newest.",
)
@click.option(
    "--network",
    metavar="text",
    help="Name the run's network again: of one of your own (my_module:factory), this says that it "
    "may be imported.",
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
    """Say how well a policy plays: return, stage reached, win rate, score, length.

    The policy is the newest checkpoint of a run (its folder, or its name under runs/), one
    checkpoint, or a scripted one: random (uniform over legal actions) or runner (fights what
    stands beside it and walks to the exit).

    Every game is played to its end, the first of its environment, so that short games are not
    favoured. Intervals are 95%: normal approximation for means, Wilson's for the win rate.
    """
    policy, environment = player_and_environment(
        target, network=network, trust_code=trust_code, best=best
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


def player_and_environment(
    target: str,
    *,
    network: str | None = None,
    trust_code: bool = False,
    best: bool = False,
) -> tuple[ActorCritic | Agent, HackMatrix]:
    """What to evaluate, and in what.

    A trained policy plays under the limits that it was trained with, a scripted one under
    those of the default config.

    Args:
        target: a run, a checkpoint, or the name of a scripted player.
        network: as for `load`, like what follows.
        trust_code: whether code that the run names may be imported.
        best: whether to take the checkpoint with the highest mean return.

    Raises:
        ConfigError: if there is no such thing, or its code is not trusted.
    """
    if target in BASELINES:
        return BASELINES[target](), make_environment(TrainConfig())
    report = partial(click.echo, err=True)
    loaded = load(target, network=network, trust_code=trust_code, best=best, report=report)
    return loaded.policy, loaded.environment
