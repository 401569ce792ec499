"""`hackmatrix-rl watch`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import jax

from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import say
from hackmatrix_rl.cli._games import (
    GameOutputs,
    chosen_player,
    given_replay,
    league_to_play,
    named,
    output_options,
    played_again,
)
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import Agent, Step, play_steps
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.system import compiling, enable_compilation_cache
from hackmatrix_rl.view import drawings_of, rendered
from hackmatrix_rl.view.replays import MOST_MOVES, Match, Mind, Replay
from hackmatrix_rl.view.terminal import show_in_terminal


@click.command("watch", cls=Command)
@click.argument("agent", metavar="AGENT")
@shared.seed_option("Seed of the game; the default is 0.")
@shared.whole_number(
    "--game", 0, 10**6, "Which game of `eval AGENT --seed SEED`; the default is 0."
)
@shared.greedy_option
@shared.takeover_options
@output_options
@shared.player_options
@shared.modules_option
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
    Another environment than HackMatrix is shown if it can draw itself.

    \b
    hackmatrix-rl watch expert --html game.html
    hackmatrix-rl watch runs/... --seed 7 --gif game.gif
    hackmatrix-rl watch runs/... --from game.json --move 57
    """
    chosen = {name: options.pop(name) for name in (*shared.PLAYER_OPTIONS, "modules")}
    shown = GameOutputs.of(**options)
    replay = given_replay(source, move, seed=seed, game=game)
    chosen["league"] = league_to_play(replay, chosen["league"])
    with Working(f"loading {agent}") as work:
        player, environment = chosen_player(work, agent, greedy=greedy, find=find_player, **chosen)
        enable_compilation_cache()
        if not isinstance(environment, HackMatrix):
            if source is not None:
                raise ConfigError(
                    f"--from {source}: of HackMatrix, and {agent} plays another game."
                )
            shown.check_drawn(agent)
            _watch_other(player, environment, shown, seed or 0, game or 0, work)
            return
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
        name = agent = named(agent, chosen["search"], chosen["cycles"])
        if replay is not None and match.actions:
            name = f"{replay.player or 'somebody'}, {agent} from move {len(match.actions)}"
        shown.show(match, mind, player=name, agent=agent, work=work)
    say(Replay.of(match, player=name).summary(), *shown.lines())


def _watch_other(
    player: Agent, environment: Environment, shown: GameOutputs, seed: int, game: int, work: Working
) -> None:
    """Shows a game of an environment that draws itself."""
    steps: list[Step] = []

    def texts() -> Iterator[str]:
        total = 0.0
        for step in play_steps(player, environment, jax.random.key(seed), game=game):
            steps.append(step)
            total += step.reward
            yield (
                f"{rendered(environment, step.state)}\n\naction {step.action}, reward "
                f"{step.reward:g}, return {total:g}"
            )

    if shown.terminal:
        work.hide()
        show_in_terminal(texts(), seconds_per_text=1 / shown.speed)
    else:
        for _ in texts():
            work.doing(f"playing: step {len(steps)}")
    shown.save_drawings(drawings_of(environment, [step.state for step in steps]), work)
    end = steps[-1].end or "unfinished"
    total = sum(step.reward for step in steps)
    said = f"{end} after {len(steps)} steps: return {total:g}"
    say(said, *shown.lines())
