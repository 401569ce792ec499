"""`hackmatrix-rl train`."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import jax
from rich.console import Console

from hackmatrix_rl.agent.networks import ActorCritic, module_of
from hackmatrix_rl.cli._output import spare_output
from hackmatrix_rl.cli._settings import (
    GroupedOptions,
    chosen_config,
    config_options,
    given_settings,
    run_options,
)
from hackmatrix_rl.cli._summary import (
    summary_table,
)
from hackmatrix_rl.cli._working import Working, evaluating
from hackmatrix_rl.config import (
    TrainConfig,
)
from hackmatrix_rl.errors import (
    ConfigError,
)
from hackmatrix_rl.evaluation import (
    Agent,
    RandomAgent,
    Runner,
    evaluate_all,
)
from hackmatrix_rl.runs import (
    ReplayWriter,
    RunFolder,
    RunResult,
    draw_curve,
    launch,
    send_summary,
)
from hackmatrix_rl.runs.sinks import terminal
from hackmatrix_rl.system import (
    ExitCode,
    chosen_devices,
    connect,
    describe_device,
    disconnect,
    is_process_zero,
    unseen_accelerator,
    untested_version,
    why_device,
    write_json,
)


@click.command(cls=GroupedOptions)
@config_options()
@run_options
@click.pass_context
def train(context: click.Context, /, **given: Any) -> int:
    """Train an agent: on a CPU it imitates a scripted expert, elsewhere it learns by PPO.

    Without options, the preset for this machine's device sets everything; on two CPU cores it
    takes some minutes. --init RUN goes on from there by PPO. Ctrl-C (or SIGTERM) saves the run
    and ends it; a second one ends it at once.

    Exit status: 0 trained to the end; 2 a setting that cannot work; 3 stopped because training
    went wrong; 4 the end of the run could not be saved; 5 (or 134) another process of the run
    was lost; 130 or 143 saved and ended by Ctrl-C or SIGTERM.
    """
    return train_a_run(context, **given)


def train_a_run(
    context: click.Context,
    *,
    preset: str | None,
    config: Path | None,
    resume_run: str | None,
    trust_code: bool,
    dry_run: bool,
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
    connect_timeout: int,
    heartbeat_timeout: int,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    check: Callable[[TrainConfig], None] = lambda _: None,
    **_: Any,
) -> int:
    """Trains a new run, or goes on with one, as the options of a command say.

    Args:
        context: of the command.
        preset: the options of `config_options` and `run_options`, by name.
        config: as `preset`.
        resume_run: as `preset`.
        trust_code: as `preset`.
        dry_run: as `preset`.
        coordinator: as `preset`.
        num_processes: as `preset`.
        process_id: as `preset`.
        connect_timeout: as `preset`.
        heartbeat_timeout: as `preset`.
        defaults: settings of a new run of this command.
        check: raises a ConfigError if the command does not do what the settings ask for.

    Returns:
        The exit status.
    """
    if not dry_run:
        spare_output()
    connect(
        coordinator,
        num_processes,
        process_id,
        heartbeat_seconds=heartbeat_timeout,
        connect_seconds=connect_timeout,
    )
    changes = {}
    settings = None
    if resume_run is None:
        settings = chosen_config(context, preset, config, defaults, trains=True)
    elif preset is not None:
        raise ConfigError(
            "--preset cannot be given with --resume-run: the run's own settings stand. Give "
            "the options that are to change instead."
        )
    else:
        changes = given_settings(context, config)
    with ExitStack() as stack:
        with Working("preparing", lines=False):
            ready = stack.enter_context(
                launch(settings, resume_run=resume_run, changes=changes, trust_code=trust_code)
            )
        check(ready.config)
        if dry_run:
            with Working("compiling", lines=False):
                plan = ready.plan()
            if is_process_zero():
                click.echo("\n".join([*ready.notes, *ready.needs, *plan.lines()]))
            disconnect()
            return int(ExitCode.DONE)
        settings = ready.config
        folder = ready.open_folder()
        console = Console(quiet=not is_process_zero())
        display = terminal(console, total_timesteps=settings.total_timesteps)
        for line in (*ready.notes, *describe(settings, folder), *ready.needs):
            display.note(line)
        result = ready.run(folder, displays=[display])
        status = result.exit_code
        if settings.eval_episodes and status is ExitCode.DONE and is_process_zero():
            status = summarize(settings, folder, result, console)
    for line in (f"Everything is in {folder.path}", *advice(settings, folder, result)):
        console.print(line, highlight=False, soft_wrap=True)
    disconnect()
    return int(status)


def advice(config: TrainConfig, folder: RunFolder, result: RunResult) -> list[str]:
    """What to do after a run has ended, in lines."""
    # A user who names the network's code may import it.
    own = f" --network {config.network}" if module_of(config.network) else ""
    see = f"See it play:  hackmatrix-rl watch {folder.path}{own}"
    go_on = f"Go on:  hackmatrix-rl train --resume-run {folder.path}{own}"
    if result.exit_code is not ExitCode.DONE:
        return [go_on, see]
    by_ppo = f"Go on by PPO:  hackmatrix-rl train --init {folder.path}{own}"
    return [see, by_ppo] if config.algorithm == "imitation" else [see]


def describe(config: TrainConfig, folder: RunFolder) -> list[str]:
    """What a run will do, in a few lines."""
    width = "" if config.width is None else f" of width {config.width}"
    rate = config.learning_rate
    falls = f"{rate}" if isinstance(rate, str) else f"{rate:g} ({config.learning_rate_schedule})"
    unseen = unseen_accelerator(jax.default_backend()) if config.device == "cpu" else None
    return [
        *(line for line in (untested_version(), unseen) if line),
        why_device(chosen_devices()[0].platform, jax.default_backend()),
        f"Training on {describe_device()}: {config.total_timesteps:,} steps in "
        f"{config.num_updates:,} updates of {config.num_envs:,} games x {config.num_steps} steps",
        f"Each update: {config.update_epochs} epochs of {config.minibatches} minibatches; "
        f"network {config.network}{width}, {config.precision}, learning rate "
        f"{falls}, seed {config.seed}",
        *([] if config.teacher is None else [f"Teacher: {config.teacher}"]),
        *([] if config.init is None else [f"Weights at the start: of {config.init}"]),
        f"Run folder: {folder.path}    Ctrl-C saves and ends.",
    ]


def summarize(
    config: TrainConfig, folder: RunFolder, result: RunResult, console: Console
) -> ExitCode:
    """Shows how the policy plays, beside random and runner, and writes that down.

    Returns:
        How the run ended: `UNSAVED` if the summary could not be written.
    """
    console.print(f"Playing {config.eval_episodes:,} games with each policy ...", highlight=False)
    players: dict[str, ActorCritic | Agent] = {
        "trained": result.policy,
        "random": RandomAgent(),
        "runner": Runner(),
    }
    key = jax.random.key(config.seed)

    def note(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    replays = ReplayWriter.of(folder, result.environment, most=config.replays, note=note)
    record = replays is not None
    with evaluating(players, games=config.eval_episodes, record=record) as on_progress:
        evaluations = evaluate_all(
            players,
            result.environment,
            episodes=config.eval_episodes,
            key=key,
            record=record,
            on_progress=on_progress,
        )
    if replays is not None:
        with Working("playing a game for the run's folder"):
            replays.keep(
                evaluations["trained"],
                key,
                update=result.update,
                policy=result.policy,
                value_scale=result.value_scale,
            )
    console.print(
        summary_table(evaluations, title=f"League {config.league}, means with 95% intervals")
    )
    try:
        write_json(folder.summary, {name: each.as_dict() for name, each in evaluations.items()})
        # Once more: random and runner are known now.
        draw_curve(folder.metrics, folder.curve, title=folder.run_id, summary=folder.summary)
    except OSError as error:
        console.print(f"COULD NOT WRITE {folder.summary}: {error}", markup=False, soft_wrap=True)
        return ExitCode.UNSAVED
    if config.wandb:
        with Working("sending the evaluation to Weights & Biases"):
            send_summary(config, folder, evaluations, note=note)
    return result.exit_code
