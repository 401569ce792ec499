"""`hackmatrix-rl play`."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import click

from hackmatrix_rl import runs, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say
from hackmatrix_rl.cli._games import given_replay, league_to_play, named, played_again
from hackmatrix_rl.cli._settings import AGENT
from hackmatrix_rl.view import replays, terminal


@click.command("play", cls=Command)
@shared.seed_option(
    "Seed of the games: the first one is the first game of eval --seed. By default it is random."
)
@click.option(
    "--agent", metavar=AGENT, default="runner", show_default=True, help="Agent for hints (key h)."
)
@shared.search_option
@shared.takeover_options
@shared.file_option(
    "--save", help="Write a replay of the game when you leave it. Key S saves at any time."
)
@shared.trust_option
def play_command(
    seed: int | None,
    agent: str,
    search: int | None,
    source: Path | None,
    move: int | None,
    save: Path | None,
    trust_code: bool,
) -> None:
    """Play HackMatrix in the terminal. It needs 80 x 24 characters.

    Arrows move and hit, s siphons, letters play programs, h asks the agent for a hint, u takes a
    turn back with UNDO, ? shows the rules and all keys. The table of scores is
    hackmatrix_rl/scores.json in the user's data folder (XDG_DATA_HOME).
    """
    terminal.check_terminal("hackmatrix-rl play")
    replay = given_replay(source, move, seed=seed)
    if save is not None:
        system.check_output_file(save, "--save")
    with views.plain_console(stderr=True).status("Loading ..."):
        # One game does not need a GPU, which may be busy with a training.
        system.select_device("cpu")
        player, environment = runs.find_hackmatrix_player(
            agent,
            trust_code=trust_code,
            league=league_to_play(replay),
            simulations=search,
            report=notify,
        )
    system.enable_compilation_cache()
    agent = named(agent, search)

    def advise(match: "replays.Match") -> "replays.Mind":
        return replays.Mind(player, match, environment=replace(environment, config=match.config))

    numbers = count()

    def new_game() -> "replays.Match":
        if seed is None:
            return replays.Match.start(secrets.randbits(32))
        return replays.Match.start(seed, game=next(numbers))

    def begin(report: Callable[[str], None]) -> "replays.Match":
        if source is None or replay is None:
            return new_game()

        def played(done: int, total: int) -> None:
            report(f"Playing the replay: move {done} of {total}")

        return played_again(source, replay, move, played)

    match = terminal.play_in_terminal(
        terminal.Seat(
            begin=begin,
            again=new_game,
            advise=advise,
            agent=agent if len(agent) <= 20 else f"{agent[:17]}...",
            scores=terminal.ScoreTable(terminal.ScoreTable.default_file()),
            save=save,
            help="" if replay is None else "taken over",
        )
    )
    if match is not None:
        say(replays.Replay.from_match(match).summary())
