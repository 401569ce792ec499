"""`hackmatrix-rl report`."""

from pathlib import Path

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs import report_of
from hackmatrix_rl.system import (
    check_output_file,
    enable_compilation_cache,
    select_device,
    write_whole,
)


@click.command("report", cls=Command)
@click.argument("run", metavar="RUN")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="The page.  [default: report.html in the run's folder]",
)
def report_command(run: str, output: Path | None) -> None:
    """Write one HTML page about a run: curves, evaluation, replays, warnings, settings, versions.

    The run is its folder, its name under runs/, or its wandb id. It may still be going. The page
    works from the disk and fetches nothing.
    """
    if output is not None:
        check_output_file(output, "--output")
    # One game is no work for a GPU, which may be busy with this run.
    select_device("cpu")
    enable_compilation_cache()
    with Working(f"reading {run}, playing its newest replay"):
        page, folder = report_of(run)
        place = folder / "report.html" if output is None else output
        try:
            write_whole(place, page)
        except OSError as error:
            raise ConfigError(
                f"--output {place}: cannot be written: {error.strerror or error}."
            ) from error
    click.echo(place)
