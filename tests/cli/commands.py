"""Commands, run in this process: programs compiled for one test serve the next."""

import re

from click.testing import CliRunner, Result

from hackmatrix_rl.cli import main


def invoke(*arguments: object) -> Result:
    """Runs `hackmatrix-rl` with these arguments."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def done(*arguments: object) -> Result:
    """Runs `hackmatrix-rl` with these arguments, which must go well."""
    result = invoke(*arguments)
    _raise_unforeseen(result)
    assert result.exit_code == 0, result.output
    return result


def assert_refused(result: Result, *parts: str) -> None:
    """A bad value: one line that says all of these, exit status 2."""
    _raise_unforeseen(result)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    # A busy machine also tells how long the work takes.
    lines = [line for line in result.stderr.splitlines() if not re.search(r" \(\d+ s\)$", line)]
    (line,) = lines
    assert line.startswith("Error: ")
    for part in parts:
        assert part in line


def _raise_unforeseen(result: Result) -> None:
    """An error that the command does not foresee, with its traceback."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
