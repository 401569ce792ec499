"""`hackmatrix-rl`: the group of all commands, and their errors."""

import os
import platform
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import click
from click.exceptions import NoSuchCommand, NoSuchOption

from hackmatrix_rl.cli._output import UNWRITTEN, OutputLostError, own_streams
from hackmatrix_rl.cli._working import Working

_REGISTRY = "hackmatrix_rl.algorithms"
"""The module with the commands of algorithms, which this package does not import by name."""

# The place of each command relative to this package, its arguments, and its summary. A command is
# imported when it is called, so `--help` does not import JAX.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("._train:train", "", "train for some minutes on two CPU cores"),
    **import_module(_REGISTRY).COMMANDS,
    "sweep": ("._sweep:sweep_command", "SPACE.toml", "search for good settings, on many machines"),
    "eval": ("._eval:evaluate_command", "runs/...", "how well a trained policy plays"),
    "watch": ("._watch:watch_command", "runs/...", "see it play, in the terminal or as a page"),
    "replay": ("._replay:replay_command", "game.json", "reproduce a recorded game"),
    "report": ("._report:report_command", "runs/...", "a page about a run"),
    "analyze": (
        "._analyze:analyze_command",
        "runs/...",
        "where and why its games end, and how it uses its tools",
    ),
    "export": (
        "._export:export_command",
        "runs/...",
        "export an agent to a file for other programs",
    ),
    "push": ("._push:push_command", "runs/... hf://USER/NAME", "publish an agent on a hub"),
    "ui": ("._ui:ui_command", "runs/...", "play in the browser, watch an agent, take over"),
    "bench": ("._bench:bench", "", "how fast this machine is"),
    "compare": (
        "._compare:compare_command",
        "A.toml B.toml",
        "whether B is as good as A, and how fast",
    ),
    "play": ("._play:play_command", "", "play yourself, in the terminal"),
    "serve": ("._serve:serve_command", "", "serve the game to another program, line by line"),
    "play-app": (
        "._play_app:play_app_command",
        "AGENT --app PATH",
        "an agent plays another program's game",
    ),
    "doctor": ("._doctor:doctor_command", "", "check this installation"),
    "verify-resume": (
        "._verify_resume:verify_resume_command",
        "",
        "prove that resuming a run changes no bit of it",
    ),
}
FLAGS = "HACKMATRIX_RL_FLAGS"
EXIT_SECONDS = 15.0
_OF_JAX = (
    "JAX_ENABLE_X64",
    "JAX_TRANSFER_GUARD",
    "JAX_TRANSFER_GUARD_HOST_TO_DEVICE",
    "JAX_TRANSFER_GUARD_DEVICE_TO_HOST",
    "JAX_TRANSFER_GUARD_DEVICE_TO_DEVICE",
)
"""Variables that `check_jax` may refuse."""


class Commands(click.Group):
    """The commands; a bad value prints one line and gives exit status 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(module, __package__), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words before the command."""
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            name = error.option_name
            said = f"No such option '{name}'. Flags follow a command: hackmatrix-rl train {name}"
            raise NoSuchOption(name, said, ctx=ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The called command; the error for an unknown name suggests a similar one."""
        try:
            with Working("starting", lines=False):  # importing takes seconds
                name, command, rest = super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(args[0], possibilities=_COMMANDS, ctx=ctx) from error
        if name != "doctor" and "--help" not in rest and any(map(os.environ.get, _OF_JAX)):
            from hackmatrix_rl.system.errors import check_jax  # imports JAX

            check_jax()
        # Appended, because the last of several values wins.
        rest = [_dashed(word) for word in rest]
        return name, command, rest if command is None else rest + added_flags(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a line for each command, without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(f"{name} {given}".rstrip(), what) for name, (_, given, what) in _COMMANDS.items()]
            )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command. A user error prints one line, not a traceback."""
        command = partial(super().main, args, prog_name, complete_var, False, **extra)
        if not standalone_mode:
            return command()
        own_process = own_streams()
        try:
            _run(command, sys.argv[1:] if args is None else args)
        except SystemExit as leaving:
            if own_process:
                _leave(leaving.code)
            raise


def _run(command: Callable[[], Any], typed: Sequence[str]) -> NoReturn:
    try:
        _check_working_directory()
        status = command()
        sys.stdout.flush()
    except OutputLostError as error:
        click.echo(f"Error: {error}.", err=True)
        sys.exit(UNWRITTEN)
    except (ValueError, OSError) as error:
        from hackmatrix_rl.cli._failures import refuse

        refuse(error, typed)
    except click.ClickException as error:
        from hackmatrix_rl.cli._failures import notify

        notify(f"Error: {error.format_message()}")
        sys.exit(click.UsageError.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


def _check_working_directory() -> None:
    """Raises an error if the working directory does not exist: relative paths would fail."""
    try:
        os.getcwd()
    except OSError as error:
        said = "the working directory was removed, or cannot be read. Change to another one (cd)."
        raise click.ClickException(said) from error


def _dashed(word: str) -> str:
    """Replaces underscores in a flag: `--learning_rate=0.1 -> --learning-rate=0.1`.

    Agents of Weights & Biases sweeps pass the names of settings with underscores.
    """
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def added_flags(command: click.Command, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The flags of the variable `HACKMATRIX_RL_FLAGS` that a command knows."""
    try:
        words = shlex.split(environment.get(FLAGS, ""))
    except ValueError as error:
        raise click.UsageError(f"{FLAGS}: {error}.") from error
    for word in words:
        if not word.startswith("--"):
            said = f"{word!r} is not a flag. Write each as --name or --name=value."
            raise click.UsageError(f"{FLAGS}: {said}")
    known = {n for each in command.params for n in (*each.opts, *each.secondary_opts)}
    return [word for word in words if word.partition("=")[0] in known]


def _leave(code: str | int | None) -> None:
    """Bounds the time of exiting.

    Weights & Biases may wait for a service that does not answer, and Python waits for a program
    that compiles in the background, which nobody needs any more.
    """
    from hackmatrix_rl.system import leave_background

    status = code if isinstance(code, int) else 0
    if "wandb" not in sys.modules:
        leave_background(status)
        return
    timer = threading.Timer(EXIT_SECONDS, os._exit, (status,))
    timer.daemon = True
    timer.start()


def _show_versions(context: click.Context) -> NoReturn:
    from hackmatrix_rl.games.hackmatrix import RULES_VERSION

    click.echo(f"hackmatrix-rl {version('hackmatrix-rl')}")
    click.echo(f"rules {RULES_VERSION}, jax {version('jax')}, python {platform.python_version()}")
    context.exit()


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, asked: _show_versions(context) if asked else None,
    help="Show the versions of the package, JAX and the rules; doctor shows the devices.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """HackMatrix: train an agent, see how it plays, play, measure speed."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
