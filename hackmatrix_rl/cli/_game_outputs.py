"""How `watch` and `replay` show a game: the terminal, a page, a film."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.system import check_output_file

F = TypeVar("F", bound=Callable[..., Any])

_FILES = {
    "html": "One HTML file that plays the game in any browser, without a network.",
    "gif": "A moving picture.",
    "mp4": "A film; needs ffmpeg.",
}


def output_options(command: F) -> F:
    """Gives a command `--html`, `--gif`, `--mp4`, `--terminal`, `--speed`, `--dark`, `--save`."""
    options = [
        *(
            click.option(f"--{name}", type=click.Path(path_type=Path), metavar="FILE", help=text)
            for name, text in _FILES.items()
        ),
        click.option("--terminal", is_flag=True, help="Show the game in this terminal."),
        click.option(
            "--speed",
            type=click.FloatRange(0.1, 50),
            metavar="NUMBER",
            default=3.0,
            show_default=True,
            help="Moves a second, in the terminal and in films.",
        ),
        click.option("--dark", is_flag=True, help="Draw films on a dark ground."),
        click.option(
            "--save",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write the replay: a few hundred bytes of JSON.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class GameOutputs:
    """Where a game is to be shown.

    Attributes:
        files: by kind: `html`, `gif`, `mp4`, `save`.
        terminal: whether it is shown in this terminal.
        speed: moves a second.
        theme: of films.
    """

    files: dict[str, Path]
    terminal: bool
    speed: float
    theme: str

    @classmethod
    def of(cls, *, terminal: bool, speed: float, dark: bool, **files: Path | None) -> "GameOutputs":
        """Checks the flags before anything long starts.

        Raises:
            ConfigError: a file cannot be written, has another ending than its flag says, or the
                game could not be shown at all.
        """
        given = {name: file for name, file in files.items() if file is not None}
        for name, file in given.items():
            ending = ".json" if name == "save" else f".{name}"
            if file.suffix.lower() != ending:
                raise ConfigError(f"--{name} {file}: the name must end with {ending}.")
            check_output_file(file, f"--{name}")
        if "mp4" in given:
            from hackmatrix_rl.view import check_ffmpeg

            check_ffmpeg("--mp4")
        shown = terminal or not given
        if shown and not sys.stdout.isatty():
            raise ConfigError(
                "standard output is not a terminal. Name a file for the game: --html FILE, "
                "--gif FILE or --save FILE."
            )
        return cls(given, shown, speed, "dark" if dark else "light")
