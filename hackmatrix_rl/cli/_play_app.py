"""`hackmatrix-rl play-app`."""

import time
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl import env as envs
from hackmatrix_rl import runs, system
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command, NumberRange
from hackmatrix_rl.cli._failures import say, writing
from hackmatrix_rl.cli._games import chosen_player, named
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.interop.protocol import client
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import replays

VISUAL_SECONDS = 2.0
"""Time until the original's window accepts requests."""


@click.command("play-app", cls=Command)
@click.argument("agent", metavar="AGENT")
@click.argument("flags", nargs=-1, metavar="[-- FLAGS]")
@shared.file_option(
    "--app",
    help="The program that plays the game: the original's binary, or hackmatrix-headless.",
    required=True,
    dir_okay=False,
)
@click.option("--visual", is_flag=True, help="Open the app's window, and pause before each move.")
@click.option(
    "--coach", is_flag=True, help="You play in the app's window; the agent only gives advice."
)
@click.option(
    "--patience",
    type=NumberRange(0.1, 3600),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Timeout of an answer.",
)
@click.option(
    "--pause",
    type=NumberRange(0, 60),
    metavar="SECONDS",
    help="Pause before each move, because a window that is still animating ignores moves.  "
    "[default: 0, with --visual 1]",
)
@shared.seed_option("Seed of the player's choices.", default=0)
@shared.greedy_option
@shared.file_option("--html", help="Write a page of the observed game, also if the app fails.")
@shared.file_option("--save", help="Write a record of the game: JSON that `replay` shows.")
@shared.player_options
def play_app_command(
    agent: str,
    flags: tuple[str, ...],
    app: Path,
    visual: bool,
    coach: bool,
    patience: float,
    pause: float | None,
    seed: int,
    html: Path | None,
    save: Path | None,
    **chosen: Any,
) -> None:
    """Let an agent play a game of another program, over the original game's line protocol.

    AGENT is a run, a checkpoint, pretrained, a script, or a search, as for `watch`. Arguments after
    -- go to the program.

    \b
    hackmatrix-rl play-app pretrained --app ./HackMatrix --visual
    hackmatrix-rl play-app pretrained --app ./HackMatrix --coach
    hackmatrix-rl play-app runs/... --app $(which hackmatrix-headless) -- --seed 7
    """
    import jax  # slow to import; `--help` does not need it

    if coach and pause is not None:
        raise ConfigError(f"--pause {pause:g}: with --coach you move when you like. Leave it out.")
    for file, flag in ((html, "--html"), (save, "--save")):
        if file is not None:
            system.check_output_file(file, flag)
    name = named(agent, chosen["search"], chosen["cycles"])
    who = f"a person, coached by {name}" if coach else name
    with Working(f"loading {agent}") as work:
        system.select_device("cpu")
        player, environment = chosen_player(work, agent, find=runs.find_hackmatrix_player, **chosen)
        system.enable_compilation_cache()
        game = client.SeenGame(environment.config)
        wait = (1.0 if visual else 0.0) if pause is None else pause
        # `Path` drops a leading ./, and a name without it would be searched in PATH.
        program = str(app.absolute() if app.exists() else app)
        window = visual or coach
        command = [program, "--visual-cli" if window else "--headless-cli", *flags]
        key = envs.env_keys(jax.random.key(seed), 1)[0]
        work.doing(f"{name} plays")
        try:
            with client.App(command, patience=patience, person=coach) as other:
                time.sleep(VISUAL_SECONDS if window else 0.0)
                if coach:
                    work.hide()
                    client.coach(other, player, environment, game, key=key, tell=click.echo)
                else:
                    client.play_app(
                        other,
                        player,
                        environment,
                        game,
                        key=key,
                        pause=wait,
                        on_move=lambda moves: work.doing(f"{name} plays: move {moves}"),
                    )
        finally:
            if game.moments:
                _keep(game, who, html, save)
    say(replays.Replay.from_match(game.match(), player=who).summary())


def _keep(game: "client.SeenGame", player: str, html: Path | None, save: Path | None) -> None:
    """Writes the page and the record of the game so far."""
    record = game.record(player=player)
    if save is not None:
        with writing(f"--save {save}"):
            system.write_json(save, record, indent=0)
    if html is not None:
        with writing(f"--html {html}"):
            system.write_whole(html, replays.page_of(game.match(), player=player, saved=record))
