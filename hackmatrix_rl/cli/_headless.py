"""`hackmatrix-headless`: the game over the line protocol, with the flags of the binary.

It starts within a second, so it does not import the other commands.
"""

import secrets
import sys
from collections.abc import Callable
from typing import Any

import click

from hackmatrix_rl.cli._output import UNWRITTEN, OutputLostError, own_streams, take_streams

SEED = click.IntRange(0, 2**32 - 1)
_INSTEAD = {
    "--visual-cli": "this package's game has no window; watch AGENT, play and ui of hackmatrix-rl "
    "show games",
    "--debug-scenario": "only the original has this layout; send a setState request with the "
    "position that you want",
}
"""Refused flags of the binary, and their equivalents."""


def protocol_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that serves the protocol."""
    said = "Seed of the games: the first one is game 0 of eval --seed. By default it is random."
    for decorate in reversed(
        (
            click.option("--seed", type=SEED, metavar="NUMBER", help=said),
            click.option("--headless-cli", is_flag=True, help="Accepted: it is the only mode."),
            click.option("--debug", is_flag=True, help="Print each request to standard error."),
            click.option("--info", is_flag=True, help="Print the result of each step there."),
            *(click.option(name, is_flag=True, help="Refused.") for name in _INSTEAD),
        )
    ):
        command = decorate(command)
    return command


def serve_protocol(*, seed: int | None, debug: bool, info: bool, **flags: bool) -> None:
    """Serves the protocol on standard input and output until one of them is closed."""
    for name, why in _INSTEAD.items():
        if flags[name.removeprefix("--").replace("-", "_")]:
            raise click.UsageError(f"{name}: {why}.")
    import jax

    from hackmatrix_rl.interop.protocol import Server, serve
    from hackmatrix_rl.system import enable_compilation_cache

    # Before a device starts: one game does not need a GPU, whose start takes seconds.
    jax.config.update("jax_platforms", "cpu")
    enable_compilation_cache()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    drawn = secrets.randbits(32) if seed is None else seed
    if seed is None:
        _say(f"--seed {drawn}")
    requests, answers = take_streams()
    try:
        serve(Server(drawn), requests, answers, say=_say, debug=debug, info=info)
    except OutputLostError as error:
        if not isinstance(error.__cause__, BrokenPipeError):
            raise
        _say("nobody reads the answers")


def _say(message: str) -> None:
    print(f"hackmatrix-headless: {message}", file=sys.stderr, flush=True)


@click.command(
    "hackmatrix-headless",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@protocol_options
def headless(**options: Any) -> None:
    """Serve this package's game over the line protocol of the original game's binary.

    Each line of standard input is a request, and each line of standard output its answer, both a
    JSON object. Messages go to standard error. HACKMATRIX_BINARY may name this command.
    """
    serve_protocol(**options)


def main() -> None:
    """Runs the command. A user error prints one line, not a traceback."""
    own_streams()
    try:
        headless.main(standalone_mode=False)
    except OutputLostError as error:
        _say(f"{error}.")
        sys.exit(UNWRITTEN)
    except click.ClickException as error:
        _say(" ".join(error.format_message().split()))
        sys.exit(click.UsageError.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
