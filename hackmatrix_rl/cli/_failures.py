"""What a command says on standard error, and how it ends that got a bad setting."""

import sys
from typing import NoReturn

import click

from hackmatrix_rl.errors import AgreedError, ConfigError, printable
from hackmatrix_rl.system import ExitCode, is_single_process, leave

MOST_CHARACTERS = 600
"""Of a line: more is no message, but what a file put into it."""


def tell(message: str) -> None:
    """Prints one line on standard error, with control characters escaped.

    Args:
        message: may repeat what a file holds. Line breaks become spaces; the middle of what is too
            long is left out, since the end says what to do.
    """
    line = printable(" ".join(message.split()))
    half = MOST_CHARACTERS // 2
    click.echo(
        line if len(line) <= MOST_CHARACTERS else f"{line[:half]} ... {line[-half:]}", err=True
    )


def refuse(error: ValueError) -> NoReturn:
    """Prints the error of a setting in one line, and ends the process.

    Args:
        error: the exception; it is raised again if it is not a `ConfigError`.
    """
    if not isinstance(error, ConfigError):
        raise error
    tell(f"Error: {error}")
    if is_single_process() or isinstance(error, AgreedError):
        sys.exit(ExitCode.BAD_INPUT)
    leave(ExitCode.BAD_INPUT)
