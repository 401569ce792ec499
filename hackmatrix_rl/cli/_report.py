"""`hackmatrix-rl report`."""

import json
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl import runs as of_runs
from hackmatrix_rl import system
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say, writing
from hackmatrix_rl.cli._options import file_option, json_option
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.runs import sweeps
from hackmatrix_rl.system.errors import ConfigError


@click.command("report", cls=Command)
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN ...]")
@file_option(
    "--output",
    metavar="FILE.html",
    dir_okay=False,
    help="The page.  [default: report.html in the folder; of several runs, in this one]",
)
@click.option("--storage", metavar="URL", help="For a sweep: its database, instead of the journal.")
@json_option
def report_command(
    runs: tuple[str, ...], output: Path | None, storage: str | None, as_json: bool
) -> None:
    """Write one HTML page about a run, a comparison of several runs, or a sweep.

    For one run: curves, evaluation, replays, warnings, settings, versions. The run is its folder,
    its name under runs/, or its wandb id. It may still be running.

    For several runs: their evaluations, interquartile means with bootstrap intervals, performance
    profiles, curves. Runs whose settings differ only in the seed form one group. With --json, the
    returns by group, one row per run, in the format of rliable.

    For the folder of a sweep: the best settings, their importance, parallel coordinates, trials.

    The page is self-contained.
    """
    if output is not None:
        system.check_output_file(output, "--output")
    if as_json and len(runs) == 1:
        raise ConfigError("--json: prints the returns of several runs. Name more runs.")
    # One game does not need a GPU, which may be busy with this run.
    system.select_device("cpu")
    system.enable_compilation_cache()
    returns: dict[str, Any] = {}
    with Working(f"reading {', '.join(runs)}"):
        if storage is not None or (
            len(runs) == 1 and sweeps.is_sweep(Path(system.typed_path(runs[0])))
        ):
            if len(runs) > 1:
                raise ConfigError("--storage: reports on one sweep. Name one folder.")
            folder = Path(system.typed_path(runs[0]))
            page = sweeps.report_of_sweep(folder, storage, report=notify)
        elif len(runs) == 1:
            page, folder = of_runs.report_of(runs[0])
        else:
            page, returns = of_runs.report_of_seeds(runs)
            folder = Path()
        place = folder / "report.html" if output is None else output
        with writing(f"--output {place}"):
            system.write_whole(place, page)
    say(json.dumps({"page": str(place), "returns": returns}) if as_json else str(place))
