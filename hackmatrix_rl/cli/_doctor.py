"""`hackmatrix-rl doctor`."""

import json
from dataclasses import asdict

import click

from hackmatrix_rl import runs
from hackmatrix_rl.cli._options import json_option
from hackmatrix_rl.cli._working import Working

_COLOURS = {"ok": "green", "note": "yellow", "fails": "red"}


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> int:
    """Check this installation: versions, devices, memory, cache, a tiny training, wandb.

    Prints one line for each part, and a remedy if something is wrong. Exit status: 0 everything
    works, 1 something fails.
    """
    found = []
    with Working("looking", lines=not as_json) as work:
        for finding in runs.examine():
            found.append(finding)
            if not as_json:
                work.say(_line_of(finding), click.echo)
                work.doing("looking")
    if as_json:
        click.echo(json.dumps({"parts": [asdict(finding) for finding in found]}))
    return int(any(finding.judgement == "fails" for finding in found))


def _line_of(finding: "runs.Finding") -> str:
    judgement = click.style(f"{finding.judgement:5}", fg=_COLOURS[finding.judgement])
    line = f"{judgement} {finding.part:9} {finding.found}"
    return f"{line}\n{'':15} {finding.remedy}" if finding.remedy else line
