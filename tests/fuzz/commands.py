"""Commands in this process, up to where they would compile, and what a good answer is."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import jax
from click.testing import CliRunner

from hackmatrix_rl.cli import main

LONG_WORK = (
    "runs._launch.make_plan",
    "evaluation.evaluate",
    "cli.bench.benchmark",
    "cli._bench.bench_all",
    "cli.bench.compare_with_pgx",
    "runs.compare",
    "runs.verify_resume",
)
"""What commands do, once they have found nothing to refuse."""


@cache
def room() -> Path:
    """An empty folder to stand in."""
    return Path(tempfile.mkdtemp(prefix="stand_", dir=os.environ["FUZZ_ROOM"]))


def accept(*_: Any, **__: Any) -> NoReturn:
    sys.exit(0)


def run_here(arguments: list[str], replaced: dict[str, Any] | None = None) -> tuple[int, str, str]:
    """Exit status, output and errors; some names are replaced, by default the long work."""
    replaced = dict.fromkeys(LONG_WORK, accept) if replaced is None else replaced
    os.chdir(room())
    with ExitStack() as stack:
        for name, double in replaced.items():
            stack.enter_context(mock.patch(f"hackmatrix_rl.{name}", double))
        stack.enter_context(mock.patch.dict(os.environ))  # --deterministic changes it
        try:
            result = CliRunner().invoke(main, arguments)
        finally:
            jax.config.update("jax_default_device", None)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{said(arguments)}: a traceback") from result.exception
    return result.exit_code, result.stdout, result.stderr


def run_apart(arguments: list[str]) -> tuple[int, str, str]:
    """The same of a real process."""
    command = [sys.executable, "-c", "from hackmatrix_rl.cli._main import main; main()", *arguments]
    done = subprocess.run(command, cwd=room(), capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def assert_answered(arguments: list[str], answer: tuple[int, str, str], *named: str) -> None:
    """Status 0, or 2 and one line that says one of some names; nothing is left behind."""
    status, out, err = answer
    # Beside it, half-written and damaged checkpoints are told of.
    lines = err.splitlines(keepends=True)
    err = "".join(line for line in lines if not line.endswith("; it is skipped\n"))
    left = sorted(path.name for path in room().iterdir())
    for path in room().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    what = f"{said(arguments)}: status {status}\n{err[:2000]}"
    assert status in (0, 2), what
    assert not left, f"{what}\nleft behind: {left}"
    if status == 2:
        assert out == "", f"{what}\nand on standard output: {out[:500]}"
        assert err.startswith("Error: "), what
        assert err.count("\n") == 1, f"more than one line: {what}"
        assert err.endswith("\n"), what
        assert any(name in err for name in named), f"none of {named} is named: {what}"


def said(arguments: list[str]) -> str:
    return "hackmatrix-rl " + " ".join(repr(each)[:200] for each in arguments)
