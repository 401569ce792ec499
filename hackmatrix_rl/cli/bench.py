"""`hackmatrix-rl bench`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from hackmatrix_rl.cli.settings import GroupedOptions, chosen_config, config_options
from hackmatrix_rl.training.benchmark import Benchmark, benchmark
from hackmatrix_rl.training.config import ConfigError
from hackmatrix_rl.training.environment_speed import Speed
from hackmatrix_rl.training.pgx_environment import require_pgx
from hackmatrix_rl.training.run_folder import write_json
from hackmatrix_rl.training.speed_comparison import Comparison, compare_with_pgx

COMPARED_GAMES = 1024


@click.command(cls=GroupedOptions)
@click.option(
    "--compare",
    type=click.Choice(["pgx"]),
    help="Measure the environment beside pgx's minatar-asterix instead, in turns, with "
    f"{COMPARED_GAMES:,} games of each unless --num-envs is given.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the figures as JSON.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each measurement; median, smallest and largest are reported.",
)
@config_options(groups=("Devices", "Game", "Collecting", "Network", "Learning"))
@click.pass_context
def bench(
    context: click.Context,
    /,
    compare: str | None,
    json_file: Path | None,
    repeats: int,
    preset: str | None,
    config: Path | None,
    **_: Any,
) -> None:
    """Measure speed: environment, learning, and training as a whole.

    \b
    env     random legal play with resets; everything a step returns is used
    update  estimating advantages and learning from a rollout
    train   whole updates as `train` does them

    Steps are environment steps: a step of all games counts once for each. Compilation is
    measured apart, without the cache that `train` uses.
    """
    if compare is not None:
        require_pgx()
    defaults = {} if compare is None else {"num_envs": COMPARED_GAMES}
    settings = chosen_config(context, preset, config, defaults)
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ConfigError(f"--json {json_file}: there is no folder {json_file.parent}.")
    found: Benchmark | Comparison
    if compare is None:
        found = benchmark(settings, repeats=repeats)
        table = bench_table(found)
    else:
        found = compare_with_pgx(settings, repeats=repeats)
        table = comparison_table(found)
    if json_file is not None:
        write_json(json_file, found.as_dict())
    Console().print(table)


def bench_table(found: Benchmark) -> Table:
    """The figures for people to read."""
    device, sizes = found.device, found.sizes
    table = _speeds_table(
        found.speeds,
        title=f"{device['kind']} x {device['count']}, {sizes['num_envs']} games x "
        f"{sizes['num_steps']} steps",
    )
    table.caption = (
        f"peak memory {found.peak_memory_bytes / 2**20:,.0f} MiB; "
        f"dropped spawns {found.dropped_spawns} in {found.env_episodes:,} games"
    )
    return table


def comparison_table(found: Comparison) -> Table:
    """The figures of two environments for people to read."""
    device, sizes = found.device, found.sizes
    table = _speeds_table(
        found.speeds,
        title=f"{device['kind']} x {device['count']}, {sizes['num_envs']} games of each",
    )
    table.caption = (
        f"ratio {found.ratio:.3f} (median of {len(found.ratios)} neighbouring runs; "
        f"{min(found.ratios):.3f} to {max(found.ratios):.3f})"
    )
    return table


def _speeds_table(speeds: Mapping[str, Speed], *, title: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for heading in ("", "steps/s (median)", "smallest", "largest", "compile s"):
        table.add_column(heading, justify="right")
    for name, speed in speeds.items():
        table.add_row(
            name,
            f"{speed.median:,.0f}",
            f"{speed.smallest:,.0f}",
            f"{speed.largest:,.0f}",
            f"{speed.compile_seconds:.1f}",
        )
    return table
