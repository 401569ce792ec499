"""Commands, run in this process: programs compiled for one test serve the next."""

from click.testing import CliRunner, Result

from hackmatrix_rl.cli.main import main


def invoke(*arguments: object) -> Result:
    """Runs `hackmatrix-rl` with these arguments."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
