"""What a command says on standard error, and how it ends after a bad setting or a full disk."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

import click

from hackmatrix_rl import system
from hackmatrix_rl.system.errors import (
    AgreedError,
    UntrustedCodeError,
    in_shell,
    printable,
    refusing,
)

MOST_CHARACTERS = 600
"""Of a line: more is no message, but what a file put into it."""


def notify(message: str, command: str = "") -> None:
    """Prints one line on standard error, which may repeat what a file holds.

    Control characters are escaped and line breaks become spaces. The middle of what is too long is
    left out, since the end says what to do. A `command` to copy follows whole.
    """
    line = printable(" ".join(message.split()))
    line += "  " if command else ""
    half = MOST_CHARACTERS // 2
    short = line if len(line) <= MOST_CHARACTERS else f"{line[:half]} ... {line[-half:]}"
    click.echo(f"{short}{command}", err=True)


def say(*lines: str) -> None:
    """Prints lines on standard output, each of which may repeat a name or what a file holds."""
    click.echo("\n".join(map(printable, lines)))


def writing(place: str) -> AbstractContextManager[None]:
    """Makes a failure to write a ConfigError about the place, such as `--output page.html`."""
    return refusing(f"{place}: cannot be written: ", of=OSError)


def refuse(error: ValueError | OSError, typed: Sequence[str]) -> NoReturn:
    """Prints a ConfigError, or that a disk is full, in one line and ends the process.

    `typed` are the words of the command line. Raises any other error again.
    """
    status = system.status_of(error)
    if status is system.ExitCode.CRASHED:
        raise error
    if isinstance(error, OSError):
        notify(f"Error: {error.filename or 'a file'}: cannot be written: {error.strerror}.")
    elif (untrusted := _untrusted(error)) is not None:
        said = str(error).replace(untrusted.advice, "If you trust it:")
        notify(f"Error: {said}", in_shell("hackmatrix-rl", *typed, "--trust-code"))
    else:
        notify(f"Error: {error}")
    if system.is_single_process() or isinstance(error, AgreedError):
        sys.exit(status)
    system.leave(status)


def _untrusted(error: BaseException | None) -> UntrustedCodeError | None:
    """The refusal of code that a message of another place repeats."""
    while error is not None and not isinstance(error, UntrustedCodeError):
        error = error.__cause__
    return error
