"""How a command ends that got a bad setting."""

import sys
from typing import NoReturn

import click

from hackmatrix_rl.errors import (
    AgreedError,
    ConfigError,
)
from hackmatrix_rl.system import (
    ExitCode,
    is_single_process,
    leave,
)


def refuse(error: ValueError) -> NoReturn:
    """Says in one line what is wrong with a setting, and ends the process.

    Args:
        error: the exception; it is raised again if it is not a `ConfigError`.
    """
    if not isinstance(error, ConfigError):
        raise error
    click.echo(f"Error: {' '.join(str(error).split())}", err=True)
    if is_single_process() or isinstance(error, AgreedError):
        sys.exit(ExitCode.BAD_INPUT)
    leave(ExitCode.BAD_INPUT)
