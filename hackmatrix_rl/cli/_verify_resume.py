"""`hackmatrix-rl verify-resume`."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl.cli._settings import (
    GROUPS,
    GroupedOptions,
    config_options,
    given_settings,
)
from hackmatrix_rl.config import make_config
from hackmatrix_rl.runs import (
    ProofError,
    ResumeProof,
    verify_resume,
)

PRESET = "debug"


@click.command("verify-resume", cls=GroupedOptions)
@click.option(
    "--updates",
    type=click.IntRange(1, 1_000_000),
    default=60,
    show_default=True,
    help="Updates before the kill, and again after it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@config_options(
    groups=[group for group in GROUPS if group != "Run"],
    also=("device", "deterministic"),
    preset=PRESET,
)
@click.pass_context
def verify_resume_command(
    context: click.Context,
    /,
    updates: int,
    as_json: bool,
    preset: str | None,
    config: Path | None,
    **_: Any,
) -> int:
    """Prove that a resumed run is bitwise the run that was stopped, on this machine.

    Trains straight through; trains again, kills that process (SIGKILL) after a checkpoint
    halfway, and resumes it twice, with the compiled programs at hand and without; compares
    every array of the final states bit by bit: parameters, optimizer, games, random keys,
    counters.

    On a GPU or TPU give --deterministic. Exit status: 0 the same, 1 not the same.
    """
    # No device is started here: the processes below need it for themselves.
    given = given_settings(context, config)
    settings = make_config(preset or given.pop("preset", PRESET), given)
    folder = Path(tempfile.mkdtemp(prefix="verify_resume_"))
    try:
        verdict = verify_resume(
            settings, updates=updates, folder=folder, report=_silent if as_json else click.echo
        )
    except ProofError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    if verdict.same:
        shutil.rmtree(folder)
    if as_json:
        click.echo(json.dumps(verdict.as_dict()))
    else:
        for line in describe(verdict, folder):
            click.echo(line)
    return 0 if verdict.same else 1


def describe(verdict: ResumeProof, folder: Path) -> list[str]:
    """The verdict in words."""
    lines = [
        f"{way}: " + ("the same bits" if difference is None else f"DIFFERS at {difference}")
        for way, difference in verdict.differences.items()
    ]
    if verdict.same:
        return [
            *lines,
            f"Trained on {verdict.device}, {verdict.versions}.",
            f"PROVED: killed at update {verdict.killed_at} and resumed, the run ends after "
            f"{verdict.updates} updates in the same {verdict.leaves} arrays, "
            f"{verdict.size:,} bytes, as the run that was never stopped.",
        ]
    return [*lines, f"NOT THE SAME. What was written is in {folder}."]


def _silent(message: str) -> None:
    """Says nothing: standard output is for the JSON alone."""
