"""Messages of a command, and its exit after a bad setting or a full disk."""

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
"""Most characters of a line: a longer one quotes the content of a file."""


def notify(message: str, command: str = "") -> None:
    """Prints one line to standard error, which may quote untrusted text.

    Control characters are escaped, and line breaks become spaces. A line that is too long loses its
    middle, because its end has the advice. A `command` to copy follows in full.
    """
    line = printable(" ".join(message.split()))
    line += "  " if command else ""
    half = MOST_CHARACTERS // 2
    short = line if len(line) <= MOST_CHARACTERS else f"{line[:half]} ... {line[-half:]}"
    click.echo(f"{short}{command}", err=True)


def say(*lines: str) -> None:
    """Prints lines to standard output, which may quote untrusted text."""
    click.echo("\n".join(map(printable, lines)))


def writing(place: str) -> AbstractContextManager[None]:
    """Turns an OSError into a ConfigError about `place`, such as `--output page.html`."""
    return refusing(f"{place}: cannot be written: ", of=OSError)


def refuse(error: ValueError | OSError, typed: Sequence[str]) -> NoReturn:
    """Prints a ConfigError, or an error of a full disk, as one line and exits.

    `typed` are the words of the command line. Any other error is reraised.
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
    """The first `UntrustedCodeError` in a chain of causes."""
    while error is not None and not isinstance(error, UntrustedCodeError):
        error = error.__cause__
    return error
