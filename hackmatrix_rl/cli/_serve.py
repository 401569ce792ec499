"""`hackmatrix-rl serve`."""

from typing import Any

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._headless import protocol_options, serve_protocol


@click.command("serve", cls=Command)
@protocol_options
def serve_command(**options: Any) -> None:
    """Serve the line protocol of the original game's binary.

    Each line of standard input is a request, and each line of standard output its answer, both a
    JSON object. Messages go to standard error.

    \b
    hackmatrix-rl serve --seed 3
    {"action": "reset"}

    The command hackmatrix-headless does the same and starts faster. The variable HACKMATRIX_BINARY
    of the original's Python environment may name it.
    """
    serve_protocol(**options)
