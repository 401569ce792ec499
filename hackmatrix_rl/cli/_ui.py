"""`hackmatrix-rl ui`."""

import os
import sys

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import tell
from hackmatrix_rl.cli._options import seed_option, trust_option, whole_number
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import Agent
from hackmatrix_rl.runs import find_hackmatrix_player
from hackmatrix_rl.system import enable_compilation_cache
from hackmatrix_rl.view.ui import PORT, serve


@click.command("ui", cls=Command)
@click.argument("agent", metavar="[AGENT]", required=False)
@whole_number("--port", 0, 65535, "Port on 127.0.0.1; 0 takes any free one.", default=PORT)
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
@seed_option("Seed of the first game. By default it is drawn.")
@trust_option
def ui_command(
    agent: str | None, port: int, no_browser: bool, seed: int | None, trust_code: bool
) -> None:
    """Play in the browser, watch an agent, take over from it.

    AGENT is a run (its folder, or its name under runs/), a checkpoint, pretrained, a script
    (random, runner, expert) or "search(pretrained, 30)". It plays from the start; without one,
    you play. The page changes it.

    The server listens on 127.0.0.1 only, and answers only whoever has the token in the address.
    It needs pip install '.[ui]'.
    """
    enable_compilation_cache()

    def find(name: str) -> tuple[Agent, HackMatrix]:
        with Working(f"loading {name}", lines=False):
            return find_hackmatrix_player(name, trust_code=trust_code, report=tell)

    done = serve(find, port=port, seed=seed, agent=agent, browser=not no_browser, report=click.echo)
    if not done:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
