"""How `watch` and `replay` show a game: the terminal, a page, a film."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from hackmatrix_rl.cli._command import NumberRange
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.system import check_output_file, write_whole
from hackmatrix_rl.view import Drawing, check_ffmpeg, draw, save_gif, save_mp4
from hackmatrix_rl.view.replays import Match, Mind, Replay, page_of, play_on
from hackmatrix_rl.view.terminal import watch_in_terminal

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
            type=NumberRange(0.1, 50),
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


_DONE = {
    "html": "Open in a browser:",
    "gif": "Moving picture:",
    "mp4": "Film:",
    "save": "Play it again:  hackmatrix-rl replay",
}


@dataclass(frozen=True)
class GameOutputs:
    """The outputs of a game.

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
            check_ffmpeg("--mp4")
        return cls(given, terminal or not given, speed, "dark" if dark else "light")

    def show(
        self,
        match: Match,
        mind: Mind | None,
        *,
        player: str,
        agent: str,
        work: Working,
        plays: bool = True,
    ) -> None:
        """Shows a game in the terminal, or plays it to its end; then writes the files.

        Args:
            match: the game, at any move.
            mind: the agent whose opinions are shown, if any.
            player: who played, in words.
            agent: whose opinions are shown.
            work: told what is being done.
            plays: whether the agent goes on with the game.

        Raises:
            ConfigError: ffmpeg failed, or a file cannot be written.
        """
        if self.terminal:
            work.hide()
            watch_in_terminal(match, mind, name=agent, seconds_per_move=1 / self.speed, plays=plays)
        elif mind is not None and plays:
            work.doing(f"{agent} plays")
            play_on(match, mind, on_move=lambda moves: work.doing(f"{agent} plays: move {moves}"))
        for kind, file in self.files.items():
            work.doing(f"writing {file}")
            try:
                self._write(kind, file, match, {agent: mind} if mind else {}, player, work)
            except OSError as error:
                raise ConfigError(
                    f"--{kind} {file}: cannot be written: {error.strerror or error}."
                ) from error

    def _write(
        self,
        kind: str,
        file: Path,
        match: Match,
        minds: dict[str, Mind],
        player: str,
        work: Working,
    ) -> None:
        if kind == "save":
            Replay.of(match, player=player).save(file)
            return
        if kind == "html":
            page = page_of(match, minds=minds, player=player, on_move=work.progress)
            write_whole(file, page)
            return
        drawings = []
        for moment in match.moments:
            drawings.append(draw(moment.frame))
            work.progress(len(drawings), len(match.moments))
        work.doing(f"writing {file}")
        self._film(kind, file, drawings)

    def check_drawn(self, agent: str) -> None:
        """Raises a ConfigError if an output is asked for that only HackMatrix has."""
        for kind in self.files.keys() & {"html", "save"}:
            raise ConfigError(
                f"--{kind} {self.files[kind]}: of HackMatrix, and {agent} plays another game. Use "
                "--gif, --mp4 or --terminal."
            )

    def save_drawings(self, drawings: Sequence[Drawing], work: Working) -> None:
        """Writes the files of a game that is drawn already.

        Raises:
            ConfigError: ffmpeg failed, or a file cannot be written.
        """
        for kind, file in self.files.items():
            work.doing(f"writing {file}")
            try:
                self._film(kind, file, drawings)
            except OSError as error:
                raise ConfigError(
                    f"--{kind} {file}: cannot be written: {error.strerror or error}."
                ) from error

    def _film(self, kind: str, file: Path, drawings: Sequence[Drawing]) -> None:
        save = save_gif if kind == "gif" else save_mp4
        save(drawings, file, theme=self.theme, seconds_per_frame=1 / self.speed)

    def lines(self) -> list[str]:
        """The written files, in lines of text."""
        return [f"{_DONE[kind]} {file}" for kind, file in self.files.items()]
