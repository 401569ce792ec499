"""`hackmatrix-rl verify-resume`."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl import runs
from hackmatrix_rl.cli._failures import notify, say
from hackmatrix_rl.cli._grouped import GROUPS, GroupedOptions
from hackmatrix_rl.cli._options import json_option, whole_number
from hackmatrix_rl.cli._settings import (
    config_options,
    given_settings,
    recipe_option,
    settings_epilog,
    typed_settings,
)
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.runs import config as configs
from hackmatrix_rl.runs.config import algorithms
from hackmatrix_rl.system.errors import ConfigError

PRESET = "debug"
SETTINGS = [group for group in GROUPS if group != "Run"]


@click.command("verify-resume", cls=GroupedOptions, epilog=settings_epilog(SETTINGS))
@whole_number(
    "--updates", 1, 1_000_000, "Updates before the kill, and as many after it.", default=60
)
@recipe_option
@json_option
@config_options(
    algorithms(), SETTINGS, also=("device", "deterministic"), preset=PRESET, in_help=False
)
@click.pass_context
def verify_resume_command(
    context: click.Context,
    /,
    updates: int,
    as_json: bool,
    recipe: str | None,
    preset: str | None,
    config: Path | None,
    **_: Any,
) -> int:
    """Prove that resuming a run gives the same bits as never stopping it, on this machine.

    It trains without a stop. It trains again and kills that process (SIGKILL) after a checkpoint
    halfway. It resumes the killed run twice, with and without the compilation cache. Then it
    compares every array of the final states bit by bit: parameters, optimizer, games, random keys,
    counters.

    On a GPU or TPU, give --deterministic. Exit status: 0 the same, 1 not the same, 2 a setting that
    cannot work.
    """
    # No device is started here: the child processes need it.
    settings = _chosen(context, preset, config, recipe)
    folder = Path(tempfile.mkdtemp(prefix="verify_resume_"))
    try:
        with Working("preparing", lines=not as_json) as work:
            verdict = runs.verify_resume(
                settings,
                updates=updates,
                folder=folder,
                report=work.doing if as_json else lambda message: work.say(message, say),
            )
    except runs.ProofError as error:
        notify(f"Error: {error}")
        return 1
    if verdict.same:
        shutil.rmtree(folder)
    say(*([json.dumps(verdict.as_dict())] if as_json else describe(verdict, folder)))
    return 0 if verdict.same else 1


def _chosen(
    context: click.Context, preset: str | None, file: Path | None, recipe: str | None
) -> "configs.RunConfig":
    """The settings of the proof, by default of the preset `debug`."""
    given = given_settings(context, file, command="")
    if recipe is not None:
        given = configs.read_settings(configs.recipe_file(recipe), report=notify) | given
    preset = preset or given.pop("preset", PRESET)
    if (stages := given.pop("stages", None)) is not None:
        config = configs.make_stages(preset, given, stages, typed_settings(context))
    else:
        name = given.pop("algorithm", None)
        name = name or configs.default_algorithm(preset, given.get("env", configs.HACKMATRIX))[0]
        kind = configs.config_class(name)
        if preset not in kind.presets:
            raise ConfigError(
                f"--preset {preset}: --algorithm {name} has none of this name. Use "
                f"{' or '.join(kind.presets)}."
            )
        configs.check_settings(kind, given)
        config = kind.of_preset(preset, given)
    config.check_provable()
    return config


def describe(verdict: "runs.ResumeProof", folder: Path) -> list[str]:
    lines = [
        f"{way}: " + ("the same bits" if difference is None else f"DIFFERS at {difference}")
        for way, difference in verdict.differences.items()
    ]
    if not verdict.same:
        return [*lines, f"NOT THE SAME. The files are in {folder}."]
    return [
        *lines,
        f"Trained on {verdict.device}, {verdict.versions}.",
        f"PROVED: killed at update {verdict.killed_at} and resumed, the run ends after "
        f"{verdict.updates} updates in the same {verdict.leaves} arrays, "
        f"{verdict.size:,} bytes, as the run that was never stopped.",
    ]
