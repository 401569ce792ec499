"""Options that several commands share, and options of a run that are not settings."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from hackmatrix_rl import system
from hackmatrix_rl.cli._grouped import GroupedOption
from hackmatrix_rl.cli.launchers import KINDS
from hackmatrix_rl.games.hackmatrix import LEAGUES
from hackmatrix_rl.runs import config as configs
from hackmatrix_rl.system import CONNECT_SECONDS, HEARTBEAT_SECONDS

F = TypeVar("F", bound=Callable[..., Any])

MOST_PROCESSES = 65_536
MOST_CYCLES = 100


def whole_number(
    name: str, least: int, most: int | None, help: str, *, metavar: str = "NUMBER", **settings: Any
) -> Callable[[F], F]:
    """An option with an integer from `least` to `most`; the help shows its default, if any."""
    shown = "default" in settings
    kind = click.IntRange(least, most)
    return click.option(name, type=kind, metavar=metavar, help=help, show_default=shown, **settings)


class TypedPath(click.Path):
    """A path whose `~` is expanded, also where the shell does not: `--save=~/a`."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(os.fsdecode(super().convert(system.typed_path(value), param, ctx)))


def file_option(
    *names: str, help: str, metavar: str = "FILE", dir_okay: bool = True, **settings: Any
) -> Callable[[F], F]:
    """An option with a path; with `dir_okay=False`, not of a folder."""
    kind = TypedPath(dir_okay=dir_okay)
    return click.option(*names, type=kind, metavar=metavar, help=help, **settings)


def seed_option(help: str, **settings: Any) -> Callable[[F], F]:
    return whole_number("--seed", 0, 2**32 - 1, help, **settings)


def num_envs_option(default: int) -> Callable[[F], F]:
    """`--num-envs` of an evaluation."""
    parallel = "Games played in parallel; fewer need less memory. The result does not depend on it."
    return whole_number("--num-envs", 1, configs.COUNTED, parallel, default=default)


def all_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Combines options into one decorator, in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


greedy_option = click.option(
    "--greedy", is_flag=True, help="Take the most probable action instead of sampling."
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."
)

league_option = click.option(
    "--league",
    type=click.Choice(LEAGUES),
    help="original: UNDO reaches across stages; no-rewind: a new stage clears the history.  "
    "[default: the agent's, else original]",
)

search_option = click.option(
    "--search",
    type=int,
    metavar="NUMBER",
    help="Simulations of a tree search before each move, with the network's probabilities and "
    "values (try 32). By default there is no search.",
)

cycles_option = click.option(
    "--cycles",
    type=click.IntRange(1, MOST_CYCLES),
    nargs=2,
    metavar="HIGH LOW",
    help="Cycles of a recursive network on each position, in place of those in training: updates "
    "of z_H, and updates of z_L before each of them.",
)

trust_option = click.option(
    "--trust-code",
    is_flag=True,
    help="Import and run the code that a stored run names as its network (my_module:factory). "
    "Use it only if you trust its author. Naming the network by --network also allows it.",
)

modules_option = click.option(
    "--agent",
    "modules",
    metavar="my_module:make",
    help="For a run of hm.SaveRun: the function that makes its trainer, or (environment, policy).",
)
"""Its parameter is called `modules`, because these commands have an argument `agent`."""

best_option = click.option(
    "--best",
    is_flag=True,
    help="Use the run's checkpoint with the highest mean return (kept by train --keep-best) "
    "instead of the latest.",
)

player_options = all_of(
    search_option,
    cycles_option,
    best_option,
    click.option(
        "--network",
        metavar="TEXT",
        help="The run's network. Naming a custom one (my_module:factory) allows its import.",
    ),
    league_option,
    trust_option,
)
"""The options of `chosen_player`, except `--greedy`."""
PLAYER_OPTIONS = ("best", "network", "league", "trust_code", "search", "cycles")
"""The names of `player_options`."""

takeover_options = all_of(
    file_option("--from", "source", help="Continue from a replay instead of starting a new game."),
    whole_number(
        "--move", 0, None, "Number of moves of the replay to play first; the default is all."
    ),
)
"""`--from` (as `source`) and `--move`, for `given_replay`."""


def launcher_options(begins: str) -> tuple[Callable[[Any], Any], ...]:
    """`--launcher` and `--launcher-kind`; the help of the first one starts with `begins`."""
    return (
        file_option(
            "--launcher",
            help=f"{begins}: a script for gcloud (FILE.sh) or SLURM (FILE.sbatch), a managed job "
            "for SkyPilot (FILE.sky.yaml) or a JobSet for Kubernetes (FILE.jobset.yaml). It "
            "resumes automatically.",
        ),
        click.option(
            "--launcher-kind",
            type=click.Choice(list(KINDS)),
            metavar="KIND",
            help=f"{', '.join(KINDS)}: the kind of launcher, if FILE has another suffix.",
        ),
    )


_process: dict[str, Any] = {"cls": GroupedOption, "group": "Several processes"}
_process_number: Callable[..., Any] = partial(whole_number, metavar="N", **_process)
_seconds: Callable[..., Any] = partial(whole_number, metavar="SECONDS", **_process)

PROCESSES = (
    *("coordinator", "num_processes", "process_id"),
    *("connect_timeout", "heartbeat_timeout"),
)
"""The names of the options for several processes."""

run_options = all_of(
    click.option(
        "--resume-run",
        metavar="ID",
        help="Resume a stopped run: its folder, its name under runs/, or its wandb run id; or "
        "wandb:ENTITY/PROJECT/RUN_ID, from its latest checkpoint there. It keeps its settings, "
        "except the given ones.",
    ),
    trust_option,
    click.option(
        "--dry-run",
        is_flag=True,
        help="Check everything, compile, print the plan of the run and its memory, and exit.",
    ),
    click.option(
        "--target",
        metavar="SLICE",
        help="With --dry-run: plan for other devices: a TPU slice (v4-64), several slices "
        "(2xv4-64), GPUs (8xh100) or CPUs (2xcpu); list prints all. Needs the extra tpu-plan or "
        "gpu-plan.",
    ),
    *launcher_options("With --target, also write a launcher of this training"),
    click.option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Address of process 0. TPU pods, SLURM and Open MPI set this and the next two options "
        "automatically.",
        **_process,
    ),
    _process_number(
        "--num-processes",
        1,
        MOST_PROCESSES,
        "Number of processes in the run; 1 ignores the launcher.",
    ),
    _process_number("--process-id", 0, MOST_PROCESSES - 1, "Index of this process, from 0."),
    _seconds(
        "--connect-timeout",
        1,
        86_400,
        "Time that the processes wait for each other at the start.",
        default=CONNECT_SECONDS,
    ),
    _seconds(
        "--heartbeat-timeout",
        10,
        86_400,
        "Time without a heartbeat of a process after which the others exit.",
        default=HEARTBEAT_SECONDS,
    ),
)
"""The options that start or resume a run and are not settings of it."""
