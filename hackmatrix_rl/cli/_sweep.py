"""`hackmatrix-rl sweep`."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from hackmatrix_rl import runs, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say
from hackmatrix_rl.cli._options import (
    TypedPath,
    all_of,
    file_option,
    launcher_options,
    seed_option,
    trust_option,
    whole_number,
)
from hackmatrix_rl.cli._settings import typed_options
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.cli.launchers import Launcher, make_launcher
from hackmatrix_rl.runs import sweeps
from hackmatrix_rl.runs.sweeps import SAMPLERS
from hackmatrix_rl.system.errors import ConfigError, as_given, in_shell

SUGGESTED = 5
"""Number of first settings that `--dry-run` shows."""
MOST_TRIALS = 100_000
MOST_WORKERS = 1_000


@click.command("sweep", cls=Command)
@click.argument("space", metavar="SPACE.toml", type=TypedPath())
@whole_number("--trials", 1, MOST_TRIALS, "Total number of trials, on all machines.", default=40)
@click.option(
    "--metric",
    metavar="NAME",
    default="return",
    show_default=True,
    help="Logged metric that ranks trials: its mean over the last tenth of the steps.",
)
@click.option("--minimize", is_flag=True, help="Minimize the metric, such as a loss.")
@file_option(
    "--folder",
    metavar="DIR",
    help="Folder of the journal and of all runs; machines that share it share the sweep.  "
    "[default: sweeps/ and the name of SPACE]",
)
@click.option(
    "--storage",
    metavar="URL",
    help="Database of Optuna (postgresql://..., mysql://...) instead of the journal.",
)
@whole_number(
    "--seeds", 1, 4096, "Trainings of each trial, in one program; metrics are means.", default=1
)
@click.option(
    "--sampler",
    type=click.Choice(SAMPLERS),
    default=SAMPLERS[0],
    show_default=True,
    help="Sampler of settings: tpe (from the results so far) or random.",
)
@click.option(
    "--prune/--no-prune",
    default=True,
    help="End trials early by successive halving: about a third continues after 12% and 36%.  "
    "[default: on]",
)
@seed_option("Seed of the sampler.", default=0)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check everything, print the space, the first settings and the folders, and exit.",
)
@click.option(
    "--target",
    metavar="DEVICES",
    help="With --launcher: the devices of each worker, on one machine, such as h100 or cpu.",
)
@all_of(*launcher_options("With --dry-run, also write a launcher of the workers as an array"))
@whole_number("--workers", 1, MOST_WORKERS, "With --launcher: number of workers.")
@trust_option
@click.pass_context
def sweep_command(
    context: click.Context,
    /,
    space: Path,
    trials: int,
    metric: str,
    minimize: bool,
    folder: Path | None,
    storage: str | None,
    seeds: int,
    sampler: str,
    prune: bool,
    seed: int,
    dry_run: bool,
    trust_code: bool,
    **_: object,
) -> int:
    """Search for good settings with many trainings, on any number of machines.

    SPACE.toml is a settings file for `train`, with a table [space] of the settings to search.
    Optuna chooses their values, and each trial is a run in the folder. Start the same command on
    every machine that sees the folder. If a machine dies, another one resumes its trial from the
    checkpoint. The best settings are in best.toml, for train --config; `hackmatrix-rl report DIR`
    draws the sweep. It needs pip install '.[sweep]'.

    \b
    learning_rate = {low = 1e-5, high = 1e-2, log = true}
    num_steps = {choices = [32, 64]}
    width = {low = 16, high = 64, step = 16}

    Ctrl-C saves and ends; the same command resumes. Exit status: as for train.
    """
    place = Path("sweeps", space.stem) if folder is None else folder
    array = array_of_workers(context)
    with Working("preparing", lines=False):
        sweeps.require_optuna()
        sweeps.check_folder(place)
        searched = sweeps.space_here(space, seeds=seeds, trust_code=trust_code, report=notify)
        system.select_device(searched.config.device)
        searched.check(metric, place)
        sweep = sweeps.open_sweep(
            searched,
            metric=metric,
            minimize=minimize,
            folder=place,
            storage=storage,
            trials=trials,
            sampler=sampler,
            seed=seed,
            prune=prune,
            look=dry_run,
            report=notify,
        )
    if dry_run:
        lines = plan_of(sweep, prune=prune)
        if array is not None:
            lines.append(array.write())
        say(*lines)
        return int(system.ExitCode.DONE)
    show = partial(views.plain_console().print, soft_wrap=True)
    status = system.ExitCode.INTERRUPTED
    with Working("starting") as work:

        def begins(trial: "sweeps.Trial", resumes: bool) -> None:
            again = ", from its last checkpoint" if resumes else ""
            work.say(f"trial {trial.number}: {sweeps.in_words(trial.values)}{again}", show)

        with suppress(KeyboardInterrupt):  # between two trainings; a training handles Ctrl-C itself
            status = sweeps.work(
                sweep,
                begins=begins,
                ends=lambda ended: work.say(end_of(ended, sweep), show),
                progress=work.progress,
                note=lambda line: work.say(line, show),
            )
    for line in conclusion(sweep, status):
        show(line)
    return int(status)


def array_of_workers(context: click.Context) -> Launcher | None:
    """The launcher of the workers, if there is a `--launcher`."""
    typed = typed_options(context)
    file = typed.get("launcher")
    if file is None:
        for name in ("target", "workers"):
            if name in typed:
                given = as_given(name, typed[name])
                raise ConfigError(f"{given}: needs --launcher, the file to write.")
    elif "dry_run" not in typed:
        raise ConfigError(f"--launcher {file}: only writes a file. Add --dry-run.")
    elif "workers" not in typed:
        raise ConfigError(f"--launcher {file}: needs --workers, the number of workers.")
    kind, target = typed.get("launcher_kind"), typed.get("target")
    return make_launcher(file, kind, target, context.info_name, typed)


def plan_of(sweep: "sweeps.Sweep", *, prune: bool) -> list[str]:
    """The plan of a sweep in lines."""
    config = sweep.space.config
    largest = "small" if sweep.minimize else "large"
    halving = "; successive halving after 12% and 36%" if prune else ""
    width = max(map(len, sweep.space.searched))
    counts = ", ".join(f"{n} {name.lower()}" for name, n in sweep.counts().items() if n)
    first = sweep.next_values(SUGGESTED)
    begun = sum(sweep.counts().values())
    lines = [
        f"Algorithm: {config.algorithm}; each trial: {runs.length_in_words(config)}",
        *(f"  {name:<{width}}  {each}" for name, each in sweep.space.searched.items()),
        f"Metric: {sweep.metric}, to be {largest}, over the last tenth of the steps{halving}",
        f"Trials: {sweep.trials} by {sweep.sampler}, in {sweep.path(0)} and so on"
        + (f"; so far {counts}" if counts else ""),
    ]
    for number, values in enumerate(first, begun):
        try:
            sweep.space.config_of(values, sweep.path(number))
            wrong = ""
        except ConfigError as error:
            wrong = f"  CANNOT WORK: {error}"
        lines.append(f"  {sweep.path(number).name}  {sweeps.in_words(values)}{wrong}")
    return lines


def end_of(ended: "sweeps.Trained", sweep: "sweeps.Sweep") -> str:
    """The end of a trial in one line."""
    said = {"COMPLETE": "", "PRUNED": "pruned ", "FAIL": "failed: "}[ended.state]
    value = "" if ended.value is None else f"{sweep.metric} {ended.value:.4g}"
    line = f"trial {ended.trial.number}: {said}{ended.why}".rstrip()
    line += f", {value}" if ended.why and value else f" {value}".rstrip()
    best = sweep.best
    return line if best is None else f"{line} (best: {best[1]:.4g}, trial {best[0]})"


def conclusion(sweep: "sweeps.Sweep", status: "system.ExitCode") -> list[str]:
    """The next steps after a worker has ended, in lines."""
    counts, best = sweep.counts(), sweep.best
    lines = []
    if status is not system.ExitCode.DONE:
        lines.append("Stopped. The same command resumes the trial that was left.")
    elif counts["RUNNING"]:
        trials = "a trial" if counts["RUNNING"] == 1 else f"{counts['RUNNING']} trials"
        resumed = "if one of them dies, the same command resumes its trial."
        lines.append(f"Other workers train {trials}; {resumed}")
    if best is not None:
        lines.append(f"Best: {sweep.metric} {best[1]:.4g}, trial {best[0]}")
        train = in_shell("hackmatrix-rl", "train", "--config", sweep.folder / "best.toml")
        lines.append(f"Train with it:  {train}")
    lines.append(f"See the sweep:  {in_shell('hackmatrix-rl', 'report', sweep.folder)}")
    return lines
