"""Whether a terminal can show a game."""

import os
import shutil
import sys

from hackmatrix_rl.errors import ConfigError

LEAST_WIDTH, LEAST_HEIGHT = 80, 24


def is_terminal() -> bool:
    """Whether a person sits in front of this process: it can show a game and take keys."""
    # Textual draws on standard error.
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    on_terminal = all(each is not None and not each.closed and each.isatty() for each in streams)
    return on_terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def check_terminal(command: str) -> None:
    """Checks that a game can be played here, before anything else begins.

    Raises:
        ConfigError: there is no terminal, or it is too small; the message names the command.
    """
    if not is_terminal():
        raise ConfigError(
            f"{command} needs a terminal: standard input, output or error is a pipe or a file, or "
            "TERM names a terminal without a cursor. Run it in a terminal window."
        )
    size = shutil.get_terminal_size()
    if size.columns < LEAST_WIDTH or size.lines < LEAST_HEIGHT:
        raise ConfigError(
            f"{command} needs a terminal of {LEAST_WIDTH} x {LEAST_HEIGHT} characters; this one "
            f"has {size.columns} x {size.lines}. Make the window larger or the font smaller."
        )
