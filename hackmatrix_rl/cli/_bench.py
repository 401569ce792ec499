"""`hackmatrix-rl bench`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hackmatrix_rl import runs as of_runs
from hackmatrix_rl import system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli import bench as benches
from hackmatrix_rl.cli._failures import say
from hackmatrix_rl.cli._grouped import GroupedOptions
from hackmatrix_rl.cli._options import file_option, trust_option, whole_number
from hackmatrix_rl.cli._settings import chosen_config, config_options, settings_epilog
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.runs import config as configs
from hackmatrix_rl.runs.config import algorithms_of
from hackmatrix_rl.system.errors import ConfigError

COMPARED_GAMES = 1024
SETTINGS = ("Game", "Devices", "Collecting", "Network", "Learning")
"""Groups of settings that matter for speed."""


@click.command(cls=GroupedOptions, epilog=settings_epilog(SETTINGS))
@click.option(
    "--compare",
    type=click.Choice(["pgx"]),
    help="Instead, measure the environment and pgx's minatar-asterix in turns, with "
    f"{COMPARED_GAMES:,} games of each unless --num-envs is given.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Instead, measure the environment with many numbers of games, in an early and a late "
    "stage, and training in f32 and bf16.",
)
@click.option(
    "--sizes",
    metavar="N,N,...",
    help="With --full: numbers of games in parallel.  [default: powers of 4 from 64 to 16,384; "
    "gpu, tpu: to 65,536]",
)
@file_option(
    "--json",
    "json_file",
    dir_okay=False,
    help="Also write the results as JSON; --full writes them after each part.",
)
@whole_number(
    "--repeats",
    1,
    10_000,
    "Runs of each measurement; the report has their median, minimum and maximum.",
    default=5,
)
@trust_option
@config_options(algorithms_of("train"), SETTINGS, in_help=False)
@click.pass_context
def bench(
    context: click.Context,
    /,
    compare: str | None,
    full: bool,
    sizes: str | None,
    json_file: Path | None,
    repeats: int,
    preset: str | None,
    config: Path | None,
    **_: Any,
) -> None:
    """Measure the speed of the environment, of learning, and of training.

    \b
    env     random legal actions, with resets
    update  advantages and gradient steps of a rollout
    train   full updates, as in `train`

    A step is one action in one game. Compile time is measured separately, without the cache
    that `train` uses.

    \b
    hackmatrix-rl bench --compare pgx            compared with a well-known environment
    hackmatrix-rl bench --full --json full.json  speed by number of games
    """
    if full and compare is not None:
        raise ConfigError("--full and --compare exclude each other. Use one of them.")
    if sizes is not None and not full:
        raise ConfigError(f"--sizes {sizes} needs --full. Use --num-envs for one size.")
    numbers = None if sizes is None else parse_sizes(sizes)
    defaults = {} if compare is None else {"num_envs": COMPARED_GAMES}
    settings = chosen_config(
        context, preset, config, defaults, algorithm=configs.baseline_algorithm()
    )
    if not isinstance(settings, configs.TrainConfig):
        raise ConfigError(
            f"--algorithm {settings.algorithm}: bench measures algorithms that play games, and "
            f"this one plays none. Use --algorithm {configs.baseline_algorithm()}."
        )
    if compare is not None:  # after all checks: importing pgx starts the devices
        system.require("pgx", extra="pgx", caller="--compare pgx")
    if json_file is not None:
        system.check_output_file(json_file, "--json")
    import jax  # slow to import; `--help` does not need it

    if untested := system.untested_version(jax.default_backend()):
        say(untested)
    if full:
        bench_all(
            settings, benches.default_sizes() if numbers is None else numbers, repeats, json_file
        )
        return
    found: benches.Benchmark | benches.SpeedComparison
    with Working("compiling and measuring"):
        found = (benches.benchmark if compare is None else benches.compare_with_pgx)(
            settings, repeats=repeats
        )
    if json_file is not None:
        system.write_json(json_file, found.as_dict())
    views.plain_console().print(results_table(found))


def parse_sizes(text: str) -> tuple[int, ...]:
    """The numbers of games in a text: `"1024,64" -> (64, 1024)`."""
    parts = [part.strip() for part in text.split(",")]
    # `isdecimal` also accepts non-ASCII digits.
    if not all(p.isascii() and p.isdecimal() and len(p) < 20 and int(p) >= 1 for p in parts):
        raise ConfigError(f"--sizes {text}: not understood. Use whole numbers: --sizes 64,1024.")
    return tuple(sorted({int(part) for part in parts}))


def bench_all(
    settings: "configs.TrainConfig", sizes: Sequence[int], repeats: int, json_file: Path | None
) -> None:
    """`--full`: shows each part when it is measured, and writes all parts so far."""
    benches.check_sizes(settings, sizes)
    console = views.plain_console()
    report: dict[str, Any] = {
        "device": benches.device_of(of_runs.make_mesh(settings.with_games(max(sizes)))),
        "versions": of_runs.versions(),
        "sizes": benches.chosen_sizes(settings, benches.LEARNING_SIZES),
        "complete": False,
        "parts": [],
    }
    done: list[benches.Part] = []
    with Working("compiling and measuring") as work:
        for part in benches.full_benchmark(settings, sizes, repeats=repeats):
            done.append(part)
            report["parts"].append(part.as_dict())
            if json_file is not None:
                system.write_json(json_file, report)
            found = part.failure if part.speed is None else f"{part.speed.median:,.0f} steps/s"
            work.say(f"{part.label} games: {found}", console.print)
            work.doing("compiling and measuring the next")
    report["complete"] = True
    if json_file is not None:
        system.write_json(json_file, report)
    console.print(full_table(done, report["device"]))
    unknown = [part.speed.unknown for part in done if part.speed is not None]
    for why in filter(None, dict.fromkeys(unknown)):
        console.print(f"MFU is left out: {why}", soft_wrap=True)


def full_table(parts: "Sequence[benches.Part]", device: Mapping[str, Any]) -> Table:
    table = _speeds_table({}, title=f"{device['kind']} x {device['count']}")
    table.add_column("MiB a device", justify="right")
    for part in parts:
        memory = "" if part.memory is None else f"{part.memory / 2**20:,.0f}"
        cells = (part.failure, "", "", "", "") if part.speed is None else _cells(part.speed)
        table.add_row(part.label, *cells, memory)
    return table


def results_table(found: "benches.Benchmark | benches.SpeedComparison") -> Table:
    device, sizes = found.device, found.sizes
    games = f"{device['kind']} x {device['count']}, {sizes['num_envs']} games"
    if isinstance(found, benches.Benchmark):
        table = _speeds_table(found.speeds, title=f"{games} x {sizes['num_steps']} steps")
        why = found.speeds["train"].unknown
        table.caption = (
            f"peak memory {found.peak_memory_bytes / 2**20:,.0f} MiB; "
            f"dropped spawns {found.dropped_spawns} in {found.env_episodes:,} games"
            + (f"; MFU is left out: {why}" if why else "")
        )
    else:
        table = _speeds_table(found.speeds, title=f"{games} of each")
        table.caption = (
            f"ratio {found.ratio:.3f} (median of {len(found.ratios)} neighbouring runs; "
            f"{min(found.ratios):.3f} to {max(found.ratios):.3f})"
        )
    return table


def _speeds_table(speeds: "Mapping[str, benches.Speed]", *, title: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for heading in ("", "steps/s (median)", "smallest", "largest", "compile s", "MFU"):
        table.add_column(heading, justify="right")
    for name, speed in speeds.items():
        table.add_row(name, *_cells(speed))
    return table


def _cells(speed: "benches.Speed") -> tuple[str, ...]:
    runs = (speed.median, speed.smallest, speed.largest)
    mfu = "" if speed.mfu is None else f"{speed.mfu:.1%}"
    return (*(f"{run:,.0f}" for run in runs), f"{speed.compile_seconds:.1f}", mfu)
