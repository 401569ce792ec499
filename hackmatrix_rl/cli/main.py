"""`hackmatrix-rl`: the commands, and how they fail."""

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from hackmatrix_rl.cli.bench import bench
from hackmatrix_rl.cli.compare import compare_command
from hackmatrix_rl.cli.eval import evaluate_command
from hackmatrix_rl.cli.train import train
from hackmatrix_rl.cli.verify_resume import verify_resume_command
from hackmatrix_rl.training.config import ConfigError
from hackmatrix_rl.training.exit_codes import ExitCode
from hackmatrix_rl.training.hosts import AgreedError, alone, leave


class Commands(click.Group):
    """A group whose commands answer a bad value with one line and exit status 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command; a mistake of the user's is no traceback."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        try:
            status = super().main(args, prog_name, complete_var, False, **extra)
        except AgreedError as error:
            fail(str(error))
        except ConfigError as error:
            if not alone():
                say(str(error))
                leave(ExitCode.BAD_INPUT)
            fail(str(error))
        except click.ClickException as error:
            fail(error.format_message())
        except (click.Abort, KeyboardInterrupt):
            click.echo("Interrupted.", err=True)
            sys.exit(130)
        sys.exit(status if isinstance(status, int) else 0)


def fail(message: str) -> NoReturn:
    """Says what is wrong in one line, and ends."""
    say(message)
    sys.exit(ExitCode.BAD_INPUT)


def say(message: str) -> None:
    """Says what is wrong in one line."""
    click.echo("Error: " + " ".join(message.split()), err=True)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="hackmatrix-rl")
@click.pass_context
def main(context: click.Context) -> None:
    """HackMatrix: train an agent, see how it plays, measure speed.

    \b
    hackmatrix-rl train                 train for about ten minutes on two CPU cores
    hackmatrix-rl eval runs/...         how well what was trained plays
    hackmatrix-rl bench                 how fast this machine is
    hackmatrix-rl compare A.toml B.toml whether B is as good as A, and how fast
    hackmatrix-rl verify-resume         proof that a resumed run is the run that was stopped
    """
    # A network of the user's own (my_module:factory) is looked for where they stand.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


main.add_command(train)
main.add_command(evaluate_command)
main.add_command(bench)
main.add_command(compare_command)
main.add_command(verify_resume_command)
