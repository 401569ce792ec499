"""What a command says on standard error, and how it ends after a bad setting or a full disk."""

import sys
from contextlib import AbstractContextManager
from typing import NoReturn

import click

from hackmatrix_rl.errors import AgreedError, printable, refusing
from hackmatrix_rl.system import ExitCode, is_single_process, leave, status_of

MOST_CHARACTERS = 600
"""Of a line: more is no message, but what a file put into it."""


def tell(message: str) -> None:
    """Prints one line on standard error, which may repeat what a file holds.

    Control characters are escaped and line breaks become spaces. The middle of what is too long is
    left out, since the end says what to do.
    """
    line = printable(" ".join(message.split()))
    half = MOST_CHARACTERS // 2
    short = line if len(line) <= MOST_CHARACTERS else f"{line[:half]} ... {line[-half:]}"
    click.echo(short, err=True)


def say(*lines: str) -> None:
    """Prints lines on standard output, each of which may repeat a name or what a file holds."""
    click.echo("\n".join(map(printable, lines)))


def writing(place: str) -> AbstractContextManager[None]:
    """Makes a failure to write a ConfigError about the place, such as `--output page.html`."""
    return refusing(f"{place}: cannot be written: ", of=OSError)


def refuse(error: ValueError | OSError) -> NoReturn:
    """Prints a ConfigError, or that a disk is full, in one line and ends the process.

    Raises any other error again.
    """
    status = status_of(error)
    if status is ExitCode.CRASHED:
        raise error
    if isinstance(error, OSError):
        tell(f"Error: {error.filename or 'a file'}: cannot be written: {error.strerror}.")
    else:
        tell(f"Error: {error}")
    if is_single_process() or isinstance(error, AgreedError):
        sys.exit(status)
    leave(status)
