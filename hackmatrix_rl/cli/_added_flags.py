"""Flags from an environment variable."""

import os
import shlex
from collections.abc import Mapping

import click

VARIABLE = "HACKMATRIX_RL_FLAGS"


def added_flags(command: click.Command, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The flags of `HACKMATRIX_RL_FLAGS` that a command knows.

    Args:
        command: the one that is about to run.
        environment: the variables.

    Raises:
        click.UsageError: the variable holds anything but flags.
    """
    try:
        words = shlex.split(environment.get(VARIABLE, ""))
    except ValueError as error:
        raise click.UsageError(f"{VARIABLE}: {error}.") from error
    for word in words:
        if not word.startswith("--"):
            raise click.UsageError(
                f"{VARIABLE}: {word!r} is not a flag. Write each as --name or --name=value."
            )
    known = {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    return [word for word in words if word.partition("=")[0] in known]
