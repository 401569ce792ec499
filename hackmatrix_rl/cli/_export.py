"""`hackmatrix-rl export`."""

import shlex
from pathlib import Path

import click

from hackmatrix_rl import evaluation, runs, system
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say, writing
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.runs import export
from hackmatrix_rl.runs.export import FORMATS
from hackmatrix_rl.system.errors import ConfigError, refusing


@click.command("export", cls=Command)
@click.argument("agent", metavar="AGENT")
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    required=True,
    help="stablehlo: a program that needs only JAX; onnx: a graph for onnxruntime and others; "
    "json: the weights as lists; npz: the weights in the original project's format.",
)
@shared.file_option(
    "--output", metavar="FILE", dir_okay=False, required=True, help="The file to write."
)
@shared.best_option
@shared.league_option
@shared.trust_option
@shared.modules_option
def export_command(
    agent: str,
    kind: str,
    output: Path,
    best: bool,
    league: str | None,
    trust_code: bool,
    modules: str | None,
) -> None:
    """Export an agent to a file for other programs.

    AGENT is pretrained, a run (its folder, or its name under runs/) or a checkpoint, of any
    environment. stablehlo and onnx support every network, json supports mlp, conv, cells, gru and
    lstm. The contract describes inputs and outputs: the arrays of the observation, the actions, the
    memory. It is part of a JSON file, and else in FILE.contract.json.

    \b
    hackmatrix-rl export pretrained --format stablehlo --output agent.bin
    hackmatrix-rl export runs/... --format npz --output params.npz
    """
    system.check_output_file(output, "--output")
    with Working(f"loading {agent}") as work:
        player, environment = runs.find_player(
            agent,
            best=best,
            league=league,
            trust_code=trust_code,
            modules=modules,
            report=lambda message: work.say(message, notify),
        )
        if not isinstance(player, evaluation.PolicyAgent):
            raise ConfigError(
                f"{agent} is no network, and only networks can be exported. Use a run, a "
                "checkpoint or pretrained."
            )
        work.doing(f"writing {output}")
        refused = refusing(f"{agent}: --format {kind}: ", "", of=ConfigError)
        with refused, writing(f"--output {output}"):
            again = _command(agent, kind, output, best, league, modules)
            files = export.export_agent(player, environment, output, format=kind, renew=again)
    say(f"Written: {', '.join(map(str, files))}")
    if kind == "stablehlo":
        until = system.exports_load_until().isoformat()
        say(f"Releases of JAX until {until} load it. For later ones, export it again: {again}")


def _command(
    agent: str, kind: str, output: Path, best: bool, league: str | None, modules: str | None
) -> str:
    """The command that exports the agent again. It does not trust code by itself."""
    words = ["hackmatrix-rl", "export", agent, "--format", kind, "--output", str(output)]
    words += ["--best"] if best else []
    words += [] if league is None else ["--league", league]
    words += [] if modules is None else ["--agent", modules]
    return shlex.join(words)
