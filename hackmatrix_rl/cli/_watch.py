"""`hackmatrix-rl watch`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl import env as envs
from hackmatrix_rl import evaluation, runs, system
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say
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
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import replays


@click.command("watch", cls=Command)
@click.argument("agent", metavar="AGENT")
@shared.seed_option("Seed of the game; the default is 0.")
@shared.whole_number(
    "--game", 0, 10**6, "Number of a game of `eval AGENT --seed SEED`; the default is 0."
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

    AGENT is a run (its folder, or its name under runs/), a checkpoint, a script (random, runner,
    expert), pretrained or "search(pretrained, 30)". With --search 32, a network runs 32
    simulations of a tree search before each move. Without an output, the game is shown in this
    terminal. Any other environment is shown by its pictures (its method render or draw, rgb_array
    of gymnasium, pictures of pgx), or else by its observations.

    \b
    hackmatrix-rl watch expert --html game.html
    hackmatrix-rl watch runs/... --seed 7 --gif game.gif
    hackmatrix-rl watch runs/... --from game.json --move 57
    """
    chosen = {name: options.pop(name) for name in (*shared.PLAYER_OPTIONS, "modules")}
    shown = GameOutputs.from_options(**options)
    replay = given_replay(source, move, seed=seed, game=game)
    chosen["league"] = league_to_play(replay, chosen["league"])
    with Working(f"loading {agent}") as work:
        player, environment = chosen_player(
            work, agent, greedy=greedy, find=runs.find_player, **chosen
        )
        system.enable_compilation_cache()
        if not isinstance(environment, envs.HackMatrix):
            if source is not None:
                raise ConfigError(
                    f"--from {source}: {agent} plays another environment than HackMatrix, whose "
                    "games cannot be continued. Leave --from and --move out."
                )
            _watch_other(player, environment, shown, seed or 0, game or 0, agent, work)
            return
        with system.compiling(work.doing):
            if replay is None or source is None:
                match = replays.Match.start(
                    seed or 0,
                    game=game or 0,
                    config=environment.config,
                    max_steps=environment.max_steps or replays.MOST_MOVES,
                )
            else:
                match = played_again(source, replay, move)
                environment = replace(environment, config=match.config)
            mind = replays.Mind(player, match, environment=environment)
            match.prepare()
            mind.opinion()
        name = agent = named(agent, chosen["search"], chosen["cycles"])
        if replay is not None and match.actions:
            name = f"{replay.player or 'somebody'}, {agent} from move {len(match.actions)}"
        shown.show(match, mind, player=name, agent=agent, work=work)
    say(replays.Replay.from_match(match, player=name).summary(), *shown.lines())


def _watch_other(
    player: "evaluation.Agent",
    environment: "envs.Environment",
    shown: GameOutputs,
    seed: int,
    game: int,
    name: str,
    work: Working,
) -> None:
    """Shows a game of another environment, by pictures or observations."""
    import jax  # slow to import; `--help` does not need it

    def report(line: str) -> None:
        work.say(line, notify)

    work.doing(f"{name} plays")
    scenes = replays.record(player, environment, jax.random.key(seed), game=game, report=report)
    count = environment.spec.actions.count
    recording = shown.show_scenes(scenes, environment.title, name, count, work)
    say(recording.summary(), *shown.lines())
