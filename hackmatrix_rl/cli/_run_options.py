"""Options of a run that are no settings of it: where it begins, whom it trusts, its processes."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from hackmatrix_rl.cli._grouped import GroupedOption
from hackmatrix_rl.system import CONNECT_SECONDS, HEARTBEAT_SECONDS

F = TypeVar("F", bound=Callable[..., Any])

MOST_PROCESSES = 65_536


def checkpoint_options(command: F) -> F:
    """Gives a command `--best` and `--network`: which policy of a run plays."""
    for option in (
        click.option(
            "--network",
            metavar="TEXT",
            help="The run's network. Naming your own (my_module:factory) allows it to be imported.",
        ),
        click.option(
            "--best",
            is_flag=True,
            help="Use the run's checkpoint with the highest mean return (kept by train "
            "--keep-best) instead of the newest.",
        ),
    ):
        command = option(command)
    return command


def trust_option(command: F) -> F:
    """Gives a command `--trust-code`."""
    return click.option(
        "--trust-code",
        is_flag=True,
        help="Import and run the code that a stored run names as its network (my_module:factory). "
        "Use it only if you trust its author. Naming the network by --network also "
        "allows it.",
    )(command)


def process_options(command: F) -> F:
    """Gives a command the flags that tell which of several processes it is."""
    separate = partial(click.option, cls=GroupedOption, group="Several processes")
    for option in (
        separate(
            "--heartbeat-timeout",
            type=click.IntRange(10, 86_400),
            default=HEARTBEAT_SECONDS,
            show_default=True,
            metavar="SECONDS",
            help="How long a process may be silent before the others end.",
        ),
        separate(
            "--connect-timeout",
            type=click.IntRange(1, 86_400),
            default=CONNECT_SECONDS,
            show_default=True,
            metavar="SECONDS",
            help="How long the processes wait for each other at the start.",
        ),
        separate(
            "--process-id",
            type=click.IntRange(0, MOST_PROCESSES - 1),
            metavar="N",
            help="The number of this process, from 0.",
        ),
        separate(
            "--num-processes",
            type=click.IntRange(1, MOST_PROCESSES),
            metavar="N",
            help="Number of processes in the run; 1 ignores the launcher.",
        ),
        separate(
            "--coordinator",
            metavar="HOST:PORT",
            help="Address of process 0. TPU pods, SLURM and Open MPI set this and the next two "
            "themselves.",
        ),
    ):
        command = option(command)
    return command


def run_options(command: F) -> F:
    """Gives a command the options that start or resume a run and are no settings of it."""
    for option in (
        process_options,
        click.option(
            "--dry-run",
            is_flag=True,
            help="Check everything, compile, print what the run would do and need, and stop.",
        ),
        trust_option,
        click.option(
            "--resume-run",
            metavar="ID",
            help="Resume a stopped run: its folder, its name under runs/, or its wandb run id. It "
            "keeps its settings; give the ones that you want to change.",
        ),
    ):
        command = option(command)
    return command
