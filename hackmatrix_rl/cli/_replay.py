"""`hackmatrix-rl replay`."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl import runs, system
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say
from hackmatrix_rl.cli._games import GameOutputs, league_to_play, output_options, played_again
from hackmatrix_rl.cli._options import TypedPath, trust_option, whole_number
from hackmatrix_rl.cli._settings import AGENT
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.interop.protocol import client
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, printable, refusing
from hackmatrix_rl.view import replays

_LONGEST_PLAYER = 200  # most characters of a player's name


@click.command("replay", cls=Command)
@click.argument("file", type=TypedPath())
@whole_number("--move", 0, None, "Play at most this many moves; the default is all.")
@click.option("--agent", metavar=AGENT, help="Show what this agent thinks of each position.")
@output_options
@trust_option
def replay_command(
    file: Path, move: int | None, agent: str | None, trust_code: bool, **outputs: Any
) -> None:
    """Reproduce a recorded game: in the terminal, as a page, or as a film.

    FILE is a replay of watch, play, ui, train, or eval --save-replays. The end of the game is
    compared with the end in the file. Without an output, the game is shown in this terminal. A
    record of play-app, and a game of another environment than HackMatrix, are shown as recorded.

    \b
    hackmatrix-rl replay game.json
    hackmatrix-rl replay game.json --agent runs/... --html game.html

    To continue from a move: hackmatrix-rl play --from FILE --move 57, or watch AGENT --from FILE.
    """
    shown = GameOutputs.from_options(**outputs)
    content = _content(file)
    if content.get("format") == replays.RECORDING:
        _show_recording(file, move, agent, shown)
        return
    if content.get("format") == client.FORMAT:
        _show_record(file, content, move, agent, shown)
        return
    replay = replays.Replay.load(file)
    replay.check_move(move)
    with Working(f"loading {file}") as work:
        player, environment = None, None
        if agent is not None:
            player, environment = runs.find_hackmatrix_player(
                agent,
                trust_code=trust_code,
                league=league_to_play(replay),
                report=lambda message: work.say(message, notify),
            )
        system.enable_compilation_cache()
        with system.compiling(work.doing) as compiled:

            def played(number: int, total: int) -> None:
                compiled()
                work.doing("playing again")
                work.progress(number, total)

            match = played_again(file, replay, move, played)
        mind = None
        if player is not None and environment is not None:
            mind = replays.Mind(
                player, match, environment=replace(environment, config=match.config)
            )
        shown.show(
            match, mind, player=replay.player, agent=agent or replay.player, work=work, plays=False
        )
    said = "the same end as in the file" if move is None else f"{move} moves"
    summary = replays.Replay.from_match(match, player=replay.player).summary()
    say(f"Played again, {said}: {summary}", *shown.lines())


def _content(file: Path) -> dict[str, Any]:
    """The content of a file; empty if it cannot be read. `Replay.load` then raises the error."""
    with suppress(DamagedFileError):
        return system.read_json(file) or {}
    return {}


def _show_recording(file: Path, move: int | None, agent: str | None, shown: GameOutputs) -> None:
    """Shows a recorded game of another environment, without importing its code."""
    if agent is not None:
        raise ConfigError(
            f"--agent {agent}: {file} is a recording, with the thoughts of its player only. Leave "
            "--agent out."
        )
    with Working(f"reading {file}") as work:
        seen = replays.Recording.load(file).until(move)
        given = (seen.environment, seen.player, seen.num_actions)
        recording = shown.show_scenes(seen.scenes, *given, work)
    say(f"As it was seen: {recording.summary()}", *shown.lines())


def _show_record(
    file: Path, record: dict[str, Any], move: int | None, agent: str | None, shown: GameOutputs
) -> None:
    """Shows a record of another program's game, without an agent's opinions."""
    for flag, value in (("--move", move), ("--agent", agent), ("--save", shown.files.get("save"))):
        if value is not None:
            raise ConfigError(
                f"{flag} {value}: {file} is a record of another program's game, whose seed is "
                f"unknown. Leave {flag} out."
            )
    with Working(f"reading {file}") as work:
        system.enable_compilation_cache()
        with refusing(f"{file}: ", of=ValueError):
            game = client.SeenGame.of_record(record)
        match, player = game.match(), printable(str(record.get("player", "")), _LONGEST_PLAYER)
        shown.show(match, None, player=player, agent=player, work=work, plays=False)
    summary = replays.Replay.from_match(match, player=player).summary()
    say(f"As it was seen: {summary}", *shown.lines())
