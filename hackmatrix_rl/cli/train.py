"""`hackmatrix-rl train`."""

from pathlib import Path
from typing import Any

import click
import jax
from rich.console import Console

from hackmatrix_rl.cli.settings import GroupedOptions, chosen_config, config_options
from hackmatrix_rl.evaluation import RandomPlayer, Runner, evaluate_all
from hackmatrix_rl.evaluation.summary import summary_table
from hackmatrix_rl.training.compilation_cache import enable_compilation_cache
from hackmatrix_rl.training.compose import compose, run_keys
from hackmatrix_rl.training.config import TrainConfig
from hackmatrix_rl.training.devices import describe_device, unseen_accelerator
from hackmatrix_rl.training.run import RunResult, run
from hackmatrix_rl.training.run_folder import RunFolder, make_run_folder, write_json
from hackmatrix_rl.training.sinks import terminal


@click.command(cls=GroupedOptions)
@config_options()
@click.pass_context
def train(context: click.Context, /, preset: str | None, config: Path | None, **_: Any) -> None:
    """Train an agent by masked PPO.

    Without options: a preset for the device that is there; on two CPU cores about ten
    minutes. Ctrl-C saves what was learned so far and ends.
    """
    settings = chosen_config(context, preset, config)
    enable_compilation_cache()
    trainer = compose(settings, key=run_keys(settings.seed)[0])
    folder = make_run_folder(settings)
    console = Console()
    display = terminal(console, total_timesteps=settings.total_timesteps)
    for line in describe(settings, folder):
        display.note(line)
    result = run(settings, trainer, folder, displays=[display])
    if settings.eval_episodes and not result.interrupted:
        summarize(settings, folder, result, console)
    console.print(f"Everything is in {folder.path}", highlight=False, soft_wrap=True)
    console.print(
        f"See it play:  hackmatrix-rl eval {folder.path}", highlight=False, soft_wrap=True
    )


def describe(config: TrainConfig, folder: RunFolder) -> list[str]:
    """What a run will do, in a few lines."""
    width = "" if config.width is None else f" of width {config.width}"
    advice = unseen_accelerator(jax.default_backend()) if config.device == "cpu" else None
    return [
        *([advice] if advice else []),
        f"Training on {describe_device()}: {config.total_timesteps:,} steps in "
        f"{config.num_updates:,} updates of {config.num_envs:,} games x {config.num_steps} steps",
        f"Each update: {config.num_epochs} epochs of {config.minibatches} minibatches; "
        f"network {config.network}{width}, {config.precision}, learning rate "
        f"{config.learning_rate:g} ({config.learning_rate_schedule}), seed {config.seed}",
        f"Run folder: {folder.path}    Ctrl-C saves and ends.",
    ]


def summarize(config: TrainConfig, folder: RunFolder, result: RunResult, console: Console) -> None:
    """Shows how the policy plays beside random and runner, and writes it down."""
    console.print(f"Playing {config.eval_episodes:,} games with each policy ...", highlight=False)
    evaluations = evaluate_all(
        {"trained": result.policy, "random": RandomPlayer(), "runner": Runner()},
        result.environment,
        episodes=config.eval_episodes,
        key=jax.random.key(config.seed),
    )
    console.print(summary_table(evaluations, title="Means with 95% intervals"))
    write_json(folder.summary, {name: each.as_dict() for name, each in evaluations.items()})
