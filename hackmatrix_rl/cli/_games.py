"""Options and outputs that the commands share that play or show games."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from hackmatrix_rl import env, evaluation, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli._command import NumberRange
from hackmatrix_rl.cli._failures import notify, writing
from hackmatrix_rl.cli._options import all_of, file_option
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.system.errors import ConfigError, in_shell, refusing
from hackmatrix_rl.view import replays

E = TypeVar("E")


def named(player: str, search: int | None, cycles: tuple[int, int] | None = None) -> str:
    """The display name of a player."""
    searching = "" if search is None else f" --search {search}"
    return player + searching + ("" if cycles is None else " --cycles {} {}".format(*cycles))


def chosen_player(
    work: Working,
    name: str,
    *,
    greedy: bool = False,
    search: int | None = None,
    find: "Callable[..., tuple[evaluation.Agent, E]]",
    **chosen: Any,
) -> "tuple[evaluation.Agent, E]":
    """The player of `player_options` and its environment."""
    player, environment = find(
        name, simulations=search, report=lambda message: work.say(message, notify), **chosen
    )
    if greedy and isinstance(player, evaluation.PolicyAgent):
        player = player.likeliest(cast("env.Environment", environment))
    return player, environment


def given_replay(
    file: Path | None, move: int | None, **new_game: int | None
) -> "replays.Replay | None":
    """The replay of `--from` and `--move`; flags of a `new_game`, such as `--seed`, are refused."""
    if file is None:
        if move is not None:
            raise ConfigError(f"--move {move} needs a replay: add --from FILE.")
        return None
    for name, value in new_game.items():
        if value is not None:
            raise ConfigError(
                f"--{name} {value}: a replay has its own seed. Leave out --{name} or --from."
            )
    replay = replays.load_game(file)
    if isinstance(replay, replays.Recording):
        raise ConfigError(
            f"--from {file}: a recorded game of {replay.environment}, which cannot be continued. "
            f"Show it: {in_shell('hackmatrix-rl', 'replay', file)}"
        )
    replay.check_move(move)
    return replay


def league_to_play(replay: "replays.Replay | None", chosen: str | None = None) -> str | None:
    """The league of an agent's game: the replay's, or else the chosen one."""
    if replay is None:
        return chosen
    league = replay.config.league
    if chosen not in (None, league):
        raise ConfigError(
            f"--league {chosen}: the replay is a game of the league {league}. Leave --league out."
        )
    return league


def played_again(
    file: Path,
    replay: "replays.Replay",
    move: int | None,
    on_move: Callable[[int, int], None] = lambda done, total: None,
) -> "replays.Match":
    """The game of a replay up to a move; by default the full game, whose end is checked."""
    with refusing(f"{file}: ", of=ConfigError):
        return replay.match(move, on_move=on_move)


output_options = all_of(
    file_option("--html", help="Write a self-contained HTML page that plays the game."),
    file_option("--gif", help="Write an animated GIF."),
    file_option("--mp4", help="Write a film; needs ffmpeg."),
    click.option("--terminal", is_flag=True, help="Show the game in this terminal."),
    click.option(
        "--speed",
        type=NumberRange(0.1, 50),
        metavar="NUMBER",
        default=3.0,
        show_default=True,
        help="Moves per second, in the terminal and in films.",
    ),
    click.option("--dark", is_flag=True, help="Draw films in the dark theme."),
    file_option("--save", help="Write the replay: a few hundred bytes of JSON."),
)
"""The options of `GameOutputs.from_options`."""

_DONE = {
    "html": "Open in a browser:",
    "gif": "Animated GIF:",
    "mp4": "Film:",
    "save": "Play it again:  hackmatrix-rl replay",
}


@dataclass(frozen=True)
class GameOutputs:
    """The outputs of a game: files by kind, such as `html`, or the terminal, at `speed` moves/s."""

    files: dict[str, Path]
    terminal: bool
    speed: float
    theme: str

    @classmethod
    def from_options(
        cls, *, terminal: bool, speed: float, dark: bool, **files: Path | None
    ) -> "GameOutputs":
        """Checks the flags before anything long starts."""
        given = {name: file for name, file in files.items() if file is not None}
        for name, file in given.items():
            ending = ".json" if name == "save" else f".{name}"
            if file.suffix.lower() != ending:
                raise ConfigError(f"--{name} {file}: the name must end with {ending}.")
            system.check_output_file(file, f"--{name}")
        if "mp4" in given:
            views.check_ffmpeg("--mp4")
        return cls(given, terminal or not given, speed, "dark" if dark else "light")

    def show(
        self,
        match: "replays.Match",
        mind: "replays.Mind | None",
        *,
        player: str,
        agent: str,
        work: Working,
        plays: bool = True,
    ) -> None:
        """Shows a game with an agent's opinions, or plays it to its end; then writes the files."""
        if self.terminal:
            work.hide()
            # Textual is slow to import.
            from hackmatrix_rl.view.terminal import watch_in_terminal

            watch_in_terminal(match, mind, name=agent, seconds_per_move=1 / self.speed, plays=plays)
        elif mind is not None and plays:
            work.doing(f"{agent} plays")
            replays.play_on(
                match, mind, on_move=lambda moves: work.doing(f"{agent} plays: move {moves}")
            )
        minds = {agent: mind} if mind else {}
        self._write(
            match,
            replays.Replay.from_match(match, player=player).save,
            lambda: replays.page_of(match, minds=minds, player=player, on_move=work.progress),
            work,
        )

    def show_scenes(
        self,
        scenes: "Iterable[replays.Scene]",
        environment: str,
        player: str,
        num_actions: int,
        work: Working,
    ) -> "replays.Recording":
        """Shows the positions of a game of any environment; then writes the files."""
        found: list[replays.Scene] = []

        def seen() -> "Iterator[replays.Scene]":
            for scene in scenes:
                found.append(scene)
                if not self.terminal:
                    work.doing(f"{player} plays: step {len(found) - 1}")
                yield scene

        if self.terminal:
            from hackmatrix_rl.view.terminal import show_in_terminal

            work.hide()
            show_in_terminal(seen(), player, seconds_per_move=1 / self.speed)
        else:
            for _ in seen():
                pass
        if not found:
            raise KeyboardInterrupt  # before the first position
        recording = replays.Recording(environment, player, num_actions, found)
        self._write(
            recording,
            recording.save,
            lambda: replays.page_of_recording(recording, on_move=work.progress),
            work,
        )
        return recording

    def _write(
        self,
        game: "replays.Match | replays.Recording",
        save: Callable[[Path], None],
        page: Callable[[], str],
        work: Working,
    ) -> None:
        for kind, file in self.files.items():
            work.doing(f"writing {file}")
            with writing(f"--{kind} {file}"):
                if kind == "save":
                    save(file)
                elif kind == "html":
                    system.write_whole(file, page())
                else:
                    film = views.save_gif if kind == "gif" else views.save_mp4
                    seconds = 1 / self.speed
                    film(
                        replays.drawings_of(game), file, theme=self.theme, seconds_per_frame=seconds
                    )

    def lines(self) -> list[str]:
        """One line per written file."""
        return [
            f"{_DONE[kind]} {in_shell(file) if kind == 'save' else file}"
            for kind, file in self.files.items()
        ]
