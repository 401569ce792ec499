"""`hackmatrix-rl report`."""

from pathlib import Path

import click

from hackmatrix_rl import system
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import writing
from hackmatrix_rl.cli._options import file_option
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.runs import report_of


@click.command("report", cls=Command)
@click.argument("run", metavar="RUN")
@file_option(
    "--output",
    metavar="FILE.html",
    dir_okay=False,
    help="The page.  [default: report.html in the run's folder]",
)
def report_command(run: str, output: Path | None) -> None:
    """Write one HTML page about a run: curves, evaluation, replays, warnings, settings, versions.

    The run is its folder, its name under runs/, or its wandb id. It may still be going. The page
    works from the disk and fetches nothing.
    """
    if output is not None:
        system.check_output_file(output, "--output")
    # One game is no work for a GPU, which may be busy with this run.
    system.select_device("cpu")
    system.enable_compilation_cache()
    with Working(f"reading {run}, playing its newest replay"):
        page, folder = report_of(run)
        place = folder / "report.html" if output is None else output
        with writing(f"--output {place}"):
            system.write_whole(place, page)
    click.echo(place)
