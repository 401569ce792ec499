"""`hackmatrix-rl compare`."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from rich.table import Table

from hackmatrix_rl import evaluation, runs, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify
from hackmatrix_rl.cli._options import json_option, trust_option, whole_number
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.evaluation import Verdict
from hackmatrix_rl.runs import config as settings
from hackmatrix_rl.runs.config import MOST_EPISODES, preset_names
from hackmatrix_rl.system.errors import ConfigError

STATUS = {Verdict.WITHIN: 0, Verdict.WORSE: 10, Verdict.NOT_SHOWN: 11}
MIB = 2**20


@click.command("compare", cls=Command)
@click.argument("files", nargs=-1, metavar="[A.toml] [B.toml]")
@click.option(
    "--precision",
    is_flag=True,
    help="Compare f32 with bf16, both with the settings of A.toml or of the preset.",
)
@click.option(
    "--preset",
    metavar="|".join(preset_names()),
    help="Settings for a kind of device, for both; the files override it.  [default: auto]",
)
@whole_number(
    "--seeds",
    1,
    1000,
    "Number of trainings of each; the seeds start at A's seed. One seed does not show the variance "
    "between seeds.",
    default=3,
)
@whole_number(
    "--total-timesteps", 1, None, "Environment steps of each training; overrides the files."
)
@whole_number("--episodes", 2, MOST_EPISODES, "Games that each policy plays.", default=1000)
@trust_option
@json_option
def compare_command(
    files: tuple[str, ...],
    precision: bool,
    preset: str | None,
    seeds: int,
    total_timesteps: int | None,
    episodes: int,
    trust_code: bool,
    as_json: bool,
) -> int:
    """Train with two settings files: is B as good as A?

    A and B train from the same seeds, alternately on the same device, and then play the same games.
    B is within 3% of A's return if the full 95% interval of the difference is. B is not within 3%
    if the full interval is below. Otherwise it is not shown. A higher return always counts as
    within. Each seed is one observation; few seeds give wide intervals.

    Exit status: 0 within 3%; 10 not within 3%; 11 not shown; 2 a setting that cannot work.
    """
    configs = chosen_configs(files, precision=precision, preset=preset, trust_code=trust_code)
    if total_timesteps is not None:
        configs = [(name, replace(c, total_timesteps=total_timesteps)) for name, c in configs]
    contenders = [runs.contender(config, name) for name, config in configs]
    first = configs[0][1].seed
    replace(configs[0][1], seed=first + seeds - 1)  # refuses seeds beyond the last
    # Without the compilation cache of `train`: compile time is measured.
    show = views.plain_console(stderr=True).print
    with Working("preparing") as work:
        found = runs.compare(
            *contenders,
            seeds=range(first, first + seeds),
            episodes=episodes,
            note=lambda message: work.say(message, show),
            on_progress=work.progress,
        )
    if as_json:
        click.echo(json.dumps(found.as_dict(), allow_nan=False))
    else:
        console = views.plain_console()
        console.print(comparison_table(found))
        console.print(verdict_line(found), soft_wrap=True)
    return STATUS[found.judgement.verdict]


def chosen_configs(
    files: tuple[str, ...], *, precision: bool, preset: str | None, trust_code: bool
) -> "list[tuple[str, settings.TrainConfig]]":
    """Names and configs of baseline and candidate."""
    if len(files) not in ((0, 1) if precision else (2,)):
        raise ConfigError(
            f"compare takes two settings files, A.toml B.toml, not {len(files)}; or --precision "
            "and one or none."
        )
    if "" in files:
        raise ConfigError("compare takes two settings files, and the name of one is empty.")
    paths = [Path(system.typed_path(file)) for file in files]
    here = partial(
        runs.config_here, preset, algorithm=settings.baseline_algorithm(), trust_code=trust_code
    )
    settled = [here(settings.read_settings(file, report=notify)) for file in paths]
    if precision:
        base = settled[0] if settled else here({})
        found = [(name, replace(base, precision=name)) for name in ("f32", "bf16")]
    else:
        same = paths[0].stem == paths[1].stem
        names = [str(path) if same else path.stem for path in paths]
        found = list(zip(names, settled, strict=True))
    trained = [(name, config) for name, config in found if isinstance(config, settings.TrainConfig)]
    if len({system.select_device(config.device) for _, config in found}) > 1:
        named = " and ".join(f"{name}: {config.device}" for name, config in found)
        raise ConfigError(f"the files name different devices ({named}). Use one for both.")
    return trained


def comparison_table(found: "runs.Comparison") -> Table:
    table = Table(
        title=f"{found.device}, {found.judgement.seeds} seeds",
        caption="Memory is the compiler's figure for the program on one device. The peak of both "
        f"together (on a CPU: of the process) was {found.peak_bytes / MIB:,.0f} MiB. "
        f"KL({found.names[0]} || ...) is in nats, on observations of {found.names[0]}; the column "
        f"{found.names[0]} compares each seed with the next.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("")
    for name in found.names:
        table.add_column(name, justify="right")
    returns = (found.judgement.baseline, found.judgement.candidate)
    divergences = (found.divergence_of_seeds, found.divergence)
    table.add_row("steps/s (median)", *(f"{each.speed:,.0f}" for each in found.measured))
    table.add_row("program's memory", *(_mib(each.memory_bytes) for each in found.measured))
    table.add_row("compile time", *(f"{each.compile_seconds:.1f} s" for each in found.measured))
    table.add_row("steps skipped", *(f"{each.skipped:,}" for each in found.measured))
    table.add_row("mean return", *map(_interval, returns))
    middle = (each.interquartile for each in found.measured)
    table.add_row("interquartile mean", *map(_interval, middle))
    table.add_row(f"KL({found.names[0]} || ...)", *map(_mean, divergences))
    return table


def verdict_line(found: "runs.Comparison") -> str:
    """The verdict, the difference, and the number of seeds that a clear verdict would need."""
    judgement = found.judgement
    line = (
        f"{str(judgement.verdict).upper()}: {judgement.reason} "
        f"(difference {_interval(judgement.difference)})."
    )
    if judgement.seeds_wanted is not None:
        line += f" About {judgement.seeds_wanted} seeds would show it, if they differ like these."
    return line


def _mib(count: int | None) -> str:
    return "unknown" if count is None else f"{count / MIB:,.1f} MiB"


def _interval(estimate: "evaluation.Estimate") -> str:
    return f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _mean(values: tuple[float, ...]) -> str:
    return f"{sum(values) / len(values):.4f}" if values else "-"
