"""`hackmatrix-rl train`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import jax
from rich.console import Console

from hackmatrix_rl.agent.networks import module_of
from hackmatrix_rl.cli._output import spare_output
from hackmatrix_rl.cli._settings import (
    GroupedOptions,
    chosen_config,
    config_options,
    given_settings,
    process_options,
    trust_option,
)
from hackmatrix_rl.cli._summary import (
    summary_table,
)
from hackmatrix_rl.config import (
    TrainConfig,
)
from hackmatrix_rl.errors import (
    AgreedError,
    ConfigError,
)
from hackmatrix_rl.evaluation import (
    RandomAgent,
    Runner,
    evaluate_all,
)
from hackmatrix_rl.runs import (
    ResumableRun,
    RunFolder,
    RunLock,
    RunResult,
    check_run_folder,
    compose,
    find_resumable_run,
    make_plan,
    make_run_folder,
    preflight,
    reopen_run_folder,
    run,
    run_keys,
)
from hackmatrix_rl.runs.sinks import terminal
from hackmatrix_rl.system import (
    ExitCode,
    any_process,
    check_same,
    check_shared,
    chosen_devices,
    connect,
    cut_cpu,
    describe_device,
    disconnect,
    enable_compilation_cache,
    is_process_zero,
    make_deterministic,
    on_process_zero,
    process_index,
    select_device,
    unseen_accelerator,
    untested_version,
    why_device,
    write_json,
)


@click.command(cls=GroupedOptions)
@config_options()
@click.option(
    "--resume-run",
    metavar="ID",
    help="Go on with a run that was stopped: its folder, its name under runs/, or its wandb run "
    "id. Its settings stand, but for those given beside this.",
)
@trust_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check everything, compile, say what the run would do and need, and stop.",
)
@process_options
@click.pass_context
def train(
    context: click.Context,
    /,
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
    **_: Any,
) -> int:
    """Train an agent by masked PPO.

    Without options: a preset for the device that is there; on two CPU cores about ten
    minutes. Ctrl-C (or SIGTERM) saves what was learned so far and ends, a second one ends at
    once.

    Exit status: 0 trained to the end; 2 a setting that cannot work; 3 stopped because training
    had gone wrong; 4 what came last could not be saved; 5 (or 134) another process of the run
    was lost; 130 or 143 saved and ended by Ctrl-C or SIGTERM.
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
    with RunLock() as lock:
        stopped = None
        if resume_run is None:
            settings = chosen_config(context, preset, config)
        elif preset is not None:
            raise ConfigError(
                "--preset cannot be given with --resume-run: the run's own settings stand. Give "
                "the options that are to change instead."
            )
        else:
            changes = given_settings(context, config)
            if changes.get("deterministic"):
                make_deterministic()  # before processes speak to one another over their devices
            find = partial(_find, resume_run, changes, trust_code, lock)
            stopped = ResumableRun.of(on_process_zero(find))
            _check_trusted_by_all(stopped, changes, trust_code)
            settings = stopped.config(changes)
            if settings.deterministic:
                make_deterministic()
            if settings.cpu_devices is not None:
                cut_cpu(settings.cpu_devices)
            select_device(settings.device)
        enable_compilation_cache()
        trainer = compose(settings, key=run_keys(settings.seed)[0])
        check_same(settings.as_dict(), trainer.policy)
        place = settings.run_dir if stopped is None else str(stopped.path)
        look = partial(preflight, settings, trainer, folder=settings.checkpoint_dir or place)
        needs = on_process_zero(look)
        if dry_run:
            lock.withdraw()
            if stopped is None:
                on_process_zero(partial(check_run_folder, settings))
            plan = make_plan(settings, trainer)
            if is_process_zero():
                click.echo("\n".join([*(stopped.notes if stopped else ()), *needs, *plan.lines()]))
            disconnect()
            return int(ExitCode.DONE)
        told = on_process_zero(partial(_open, settings, stopped, lock))
        folder = RunFolder.seen_by(process_index(), told)
        check_shared(folder.checkpoints)
        console = Console(quiet=not is_process_zero())
        display = terminal(console, total_timesteps=settings.total_timesteps)
        for line in (*(stopped.notes if stopped else ()), *describe(settings, folder), *needs):
            display.note(line)
        checkpoint = None if stopped is None else stopped.checkpoint
        result = run(settings, trainer, folder, resume=checkpoint, displays=[display], lock=lock)
        status = result.exit_code
        if settings.eval_episodes and status is ExitCode.DONE and is_process_zero():
            status = summarize(settings, folder, result, console)
    for line in (f"Everything is in {folder.path}", *advice(settings, folder, result)):
        console.print(line, highlight=False, soft_wrap=True)
    disconnect()
    return int(status)


def _find(run: str, changes: Mapping[str, Any], trust_code: bool, lock: RunLock) -> dict[str, Any]:
    """A stopped run that may be gone on with, locked against other processes."""
    stopped = find_resumable_run(run, changes.get("checkpoint_dir"), lock=lock)
    stopped.check_trusted(changes, trust_code=trust_code)
    return stopped.as_dict()


def _check_trusted_by_all(
    stopped: ResumableRun, changes: Mapping[str, Any], trust_code: bool
) -> None:
    """Refuses in all processes what one of them was not told to trust."""
    refused = None
    try:
        stopped.check_trusted(changes, trust_code=trust_code)
    except ConfigError as error:
        refused = str(error)
    if any_process(refused is not None):
        raise AgreedError(refused or "--trust-code is missing in another process of the run.")


def _open(settings: TrainConfig, stopped: ResumableRun | None, lock: RunLock) -> dict[str, Any]:
    """The run's folder, locked and ready to be written."""
    if stopped is None:
        folder = make_run_folder(settings, lock=lock)
    else:
        folder = reopen_run_folder(settings, stopped.path, stopped.metadata["run"], lock=lock)
        stopped.set_damaged_aside()
    return folder.as_dict()


def advice(config: TrainConfig, folder: RunFolder, result: RunResult) -> list[str]:
    """What to do next, after a run has ended."""
    # Code is imported for those who name it.
    own = f" --network {config.network}" if module_of(config.network) else ""
    see = f"See it play:  hackmatrix-rl eval {folder.path}{own}"
    go_on = f"Go on:  hackmatrix-rl train --resume-run {folder.path}{own}"
    return [see] if result.exit_code is ExitCode.DONE else [go_on, see]


def describe(config: TrainConfig, folder: RunFolder) -> list[str]:
    """What a run will do, in a few lines."""
    width = "" if config.width is None else f" of width {config.width}"
    unseen = unseen_accelerator(jax.default_backend()) if config.device == "cpu" else None
    return [
        *(line for line in (untested_version(), unseen) if line),
        why_device(chosen_devices()[0].platform, jax.default_backend()),
        f"Training on {describe_device()}: {config.total_timesteps:,} steps in "
        f"{config.num_updates:,} updates of {config.num_envs:,} games x {config.num_steps} steps",
        f"Each update: {config.update_epochs} epochs of {config.minibatches} minibatches; "
        f"network {config.network}{width}, {config.precision}, learning rate "
        f"{config.learning_rate:g} ({config.learning_rate_schedule}), seed {config.seed}",
        f"Run folder: {folder.path}    Ctrl-C saves and ends.",
    ]


def summarize(
    config: TrainConfig, folder: RunFolder, result: RunResult, console: Console
) -> ExitCode:
    """Shows how the policy plays beside random and runner, and writes it down.

    Returns:
        How the run ended: `UNSAVED` if that could not be written.
    """
    console.print(f"Playing {config.eval_episodes:,} games with each policy ...", highlight=False)
    evaluations = evaluate_all(
        {"trained": result.policy, "random": RandomAgent(), "runner": Runner()},
        result.environment,
        episodes=config.eval_episodes,
        key=jax.random.key(config.seed),
    )
    console.print(summary_table(evaluations, title="Means with 95% intervals"))
    try:
        write_json(folder.summary, {name: each.as_dict() for name, each in evaluations.items()})
    except OSError as error:
        console.print(f"COULD NOT WRITE {folder.summary}: {error}", markup=False, soft_wrap=True)
        return ExitCode.UNSAVED
    return result.exit_code
