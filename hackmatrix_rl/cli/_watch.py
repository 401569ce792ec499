"""`hackmatrix-rl watch`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._game_outputs import GameOutputs, output_options
from hackmatrix_rl.cli._player import PLAYER_OPTIONS, chosen_player, named, player_options
from hackmatrix_rl.cli._replay_files import (
    given_replay,
    league_to_play,
    played_again,
    takeover_options,
)
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.system import compiling, enable_compilation_cache
from hackmatrix_rl.view.replays import MOST_MOVES, Match, Mind, Replay


@click.command("watch", cls=Command)
@click.argument("agent", metavar="AGENT")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="NUMBER",
    help="Seed of the game; the default is 0.",
)
@click.option(
    "--game",
    type=click.IntRange(0, 10**6),
    metavar="NUMBER",
    help="Which game of `eval AGENT --seed SEED`; the default is 0.",
)
@click.option("--greedy", is_flag=True, help="Take the most likely action instead of drawing one.")
@takeover_options
@output_options
@player_options
def watch_command(
    agent: str,
    seed: int | None,
    game: int | None,
    greedy: bool,
    source: Path | None,
    move: int | None,
    **options: Any,
) -> None:
    """Watch an agent play a game: in the terminal, as a page, as a film.

    AGENT is a run (its folder, or its name under runs/), a checkpoint, or a script (random,
    runner, expert), pretrained or "search(pretrained, 30)". With --search 32, a network tries
    32 actions out before each move. Without an output, the game is shown in this terminal.

    \b
    hackmatrix-rl watch expert --html game.html
    hackmatrix-rl watch runs/... --seed 7 --gif game.gif
    hackmatrix-rl watch runs/... --from game.json --move 57
    """
    chosen = {name: options.pop(name) for name in PLAYER_OPTIONS}
    shown = GameOutputs.of(**options)
    replay = given_replay(source, move, seed=seed, game=game)
    chosen["league"] = league_to_play(replay, chosen["league"])
    with Working(f"loading {agent}") as work:
        player, environment = chosen_player(work, agent, greedy=greedy, **chosen)
        enable_compilation_cache()
        with compiling(work.doing):
            if replay is None or source is None:
                match = Match.start(
                    seed or 0,
                    game=game or 0,
                    config=environment.config,
                    max_steps=environment.max_steps or MOST_MOVES,
                )
            else:
                match = played_again(source, replay, move)
                environment = replace(environment, config=match.config)
            mind = Mind(player, match, environment=environment)
            match.prepare()
            mind.opinion()
        agent = named(agent, chosen["search"])
        name = _played_by(agent, replay, match)
        shown.show(match, mind, player=name, agent=agent, work=work)
    click.echo(Replay.of(match, player=name).summary())
    for line in shown.lines():
        click.echo(line)


def _played_by(agent: str, replay: Replay | None, match: Match) -> str:
    """Who plays a game, in words."""
    if replay is None or not match.actions:
        return agent
    return f"{replay.player or 'somebody'}, {agent} from move {len(match.actions)}"
