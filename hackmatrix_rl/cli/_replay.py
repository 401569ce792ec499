"""`hackmatrix-rl replay`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import tell
from hackmatrix_rl.cli._games import GameOutputs, league_to_play, output_options, played_again
from hackmatrix_rl.cli._options import trust_option, whole_number
from hackmatrix_rl.cli._settings import AGENT
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.runs import find_hackmatrix_player
from hackmatrix_rl.system import compiling, enable_compilation_cache
from hackmatrix_rl.view.replays import Mind, Replay


@click.command("replay", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@whole_number("--move", 0, None, "Play only so many moves; the default is all.")
@click.option("--agent", metavar=AGENT, help="Show what this agent thinks of each position.")
@output_options
@trust_option
def replay_command(
    file: Path, move: int | None, agent: str | None, trust_code: bool, **outputs: Any
) -> None:
    """Play a replay again exactly: in the terminal, as a page, as a film.

    FILE is a replay of watch, play, ui, train, or eval --save-replays. The end of the game is
    compared with that in the file. Without an output, the game is shown in this terminal.

    \b
    hackmatrix-rl replay game.json
    hackmatrix-rl replay game.json --agent runs/... --html game.html

    To go on from a move: hackmatrix-rl play --from FILE --move 57, or watch AGENT --from FILE.
    """
    shown = GameOutputs.of(**outputs)
    replay = Replay.load(file)
    replay.check_move(move)
    with Working(f"loading {file}") as work:
        player, environment = None, None
        if agent is not None:
            player, environment = find_hackmatrix_player(
                agent,
                trust_code=trust_code,
                league=league_to_play(replay),
                report=lambda message: work.say(message, tell),
            )
        enable_compilation_cache()
        with compiling(work.doing) as compiled:

            def played(number: int, total: int) -> None:
                compiled()
                work.doing("playing again")
                work.progress(number, total)

            match = played_again(file, replay, move, played)
        mind = None
        if player is not None and environment is not None:
            mind = Mind(player, match, environment=replace(environment, config=match.config))
        shown.show(
            match, mind, player=replay.player, agent=agent or replay.player, work=work, plays=False
        )
    said = "the same end as in the file" if move is None else f"{move} moves"
    summary = Replay.of(match, player=replay.player).summary()
    click.echo("\n".join([f"Played again, {said}: {summary}", *shown.lines()]))
