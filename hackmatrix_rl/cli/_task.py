"""The common part of the commands that train: from options to a finished run."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import click
from rich.console import Console

from hackmatrix_rl import runs, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli._failures import say
from hackmatrix_rl.cli._options import PROCESSES
from hackmatrix_rl.cli._output import spare_output
from hackmatrix_rl.cli._settings import given_settings, typed_options
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.cli.launchers import make_launcher
from hackmatrix_rl.runs import sinks
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system.errors import ConfigError, as_given, flag

C = TypeVar("C", bound=RunConfig)


@dataclass(frozen=True)
class Task(Generic[C]):
    """The training of a command, and its printed texts.

    Attributes:
        command: the name of the command.
        choose: returns the settings of a new run from the options and a file, for a target or for
            the devices here, which it selects.
        check: raises a ConfigError if the command does not support the settings.
        explain: the origin of the settings, in lines.
        describe: the plan of the run, in lines.
        summarize: called after a completed training, in process 0; returns the exit code.
        advice: the next steps after the run, in lines.
    """

    command: str
    choose: "Callable[[Path | None, system.Target | None], C]"
    check: Callable[[C], None]
    explain: Callable[[C], list[str]]
    describe: "Callable[[C, runs.RunFolder], list[str]]"
    summarize: "Callable[[C, runs.RunFolder, runs.RunResult, Console], system.ExitCode]"
    advice: "Callable[[C, runs.RunFolder, runs.RunResult], list[str]]"


def run_task(
    context: click.Context,
    task: Task[C],
    /,  # a setting may have the name of either
    *,
    config: Path | None,
    resume_run: str | None,
    trust_code: bool,
    dry_run: bool,
    target: str | None,
    launcher: Path | None,
    launcher_kind: str | None,
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
    connect_timeout: int,
    heartbeat_timeout: int,
    **_: Any,
) -> int:
    """Trains a run with the options of `config_options` and `run_options`; the exit status."""
    if target is not None:
        return plan_elsewhere(
            context,
            task,
            target,
            config,
            launcher=launcher,
            launcher_kind=launcher_kind,
            resume_run=resume_run,
            dry_run=dry_run,
            trust_code=trust_code,
        )
    make_launcher(launcher, launcher_kind, None, task.command, {})  # it needs a target
    if not dry_run:
        spare_output()
    system.connect(
        coordinator,
        num_processes,
        process_id,
        heartbeat_seconds=heartbeat_timeout,
        connect_seconds=connect_timeout,
    )
    new = resume_run is None
    start = runs.launch(
        task.choose(config, None) if new else None,
        command=task.command,
        resume_run=resume_run,
        changes={} if new else given_settings(context, config, task.command),
        trust_code=trust_code,
    )
    with ExitStack() as stack:
        with Working("preparing", lines=False):
            ready = stack.enter_context(start)
        settings = cast(C, ready.config)  # launch refuses a run of another command
        task.check(settings)
        notes = (*ready.notes, *task.explain(settings))
        if dry_run:
            with Working("compiling", lines=False):
                plan = ready.plan()
            if system.is_process_zero():
                say(*notes, *ready.needs, *plan.lines())
            system.disconnect()
            return int(system.ExitCode.DONE)
        folder = ready.open_folder()
        console = views.plain_console(quiet=not system.is_process_zero())
        display = sinks.terminal(console, length=sinks.Length.from_config(settings))
        for line in (*notes, *task.describe(settings, folder), *ready.needs):
            display.note(line)
        result = ready.run(folder, displays=[display])
        status, ended = result.exit_code, cast(C, result.config)
        if status is system.ExitCode.DONE and system.is_process_zero():
            status = task.summarize(ended, folder, result, console)
    for line in (f"Everything is in {folder.path}", *task.advice(ended, folder, result)):
        console.print(line, soft_wrap=True)
    system.disconnect()
    return int(status)


def plan_elsewhere(
    context: click.Context,
    task: Task[C],
    name: str,
    config: Path | None,
    *,
    launcher: Path | None,
    launcher_kind: str | None,
    resume_run: str | None,
    dry_run: bool,
    trust_code: bool,
) -> int:
    """Prints the plan of each stage on other devices; returns the exit status."""
    if name == "list":
        click.echo("\n".join(system.target_names()))
        return int(system.ExitCode.DONE)
    if not dry_run:
        raise ConfigError(f"--target {name}: only plans a run. Add --dry-run.")
    if resume_run is not None:
        raise ConfigError(
            f"--target {name}: plans a new run. Leave --resume-run out, and give its settings."
        )
    given = typed_options(context)
    for each in PROCESSES:
        if each in given:
            raise ConfigError(
                f"{as_given(each, given[each])}: one process plans for all hosts of --target "
                f"{name}. Leave {flag(each)} out."
            )
    made = make_launcher(launcher, launcher_kind, name, context.info_name, given)
    target = system.target(name)
    settings = task.choose(config, target)
    task.check(settings)
    lines = task.explain(settings)
    several = len(settings.stages) > 1
    for number, stage in enumerate(settings.stages, 1):
        with Working(f"compiling {stage.algorithm}", lines=False):
            plan = runs.plan_for(stage, target, trust_code=trust_code)
        lines += [f"Stage {number}: {stage.algorithm}"] * several + plan.lines()
    if made is not None:
        lines.append(made.write())
    say(*lines)
    return int(system.ExitCode.DONE)


def machine(config: RunConfig) -> list[str]:
    """Facts about the machine before a run, in lines."""
    import jax  # slow to import; `--help` does not need it

    unseen = system.unseen_accelerator(jax.default_backend()) if config.device == "cpu" else None
    return [
        *(line for line in (system.untested_version(jax.default_backend()), unseen) if line),
        system.why_device(system.chosen_devices()[0].platform, jax.default_backend()),
    ]
