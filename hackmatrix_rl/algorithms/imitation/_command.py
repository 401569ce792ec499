"""`hackmatrix-rl imitate`."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hackmatrix_rl import cli
from hackmatrix_rl import env as envs
from hackmatrix_rl.algorithms.imitation._config import ImitationConfig
from hackmatrix_rl.runs import config as configs
from hackmatrix_rl.system.errors import ConfigError, refusing

_DEFAULTS = {"algorithm": ImitationConfig.algorithm}
_SHOWN = ("total_timesteps", "seed", "device", "run_dir", "league", "num_envs", "network")
_OWN = [each.name for each in fields(ImitationConfig) if each.metadata["group"] == "Imitation"]


@click.command(cls=cli.GroupedOptions, epilog=cli.settings_epilog(cli.GROUPS))
@cli.config_options(
    {ImitationConfig.algorithm: ImitationConfig}, also=(*_SHOWN, *_OWN), in_help=False
)
@cli.run_options
@cli.file_option(
    "--save-demonstrations",
    "demonstrations",
    metavar="FOLDER",
    help="Do not train: write games of the teacher into a new folder (docs/demonstrations.md).",
)
@cli.whole_number(
    "--games", 1, 10_000_000, "Games to write with --save-demonstrations.", default=1_000
)
@click.pass_context
def imitate(
    context: click.Context, /, demonstrations: Path | None, games: int, **given: Any
) -> int:
    """Train an agent to imitate a teacher (behaviour cloning and DAgger).

    The teacher (--teacher expert) labels each position with its action, and the agent learns the
    labels. The teacher plays the first games, later the agent does. The run is watched, stopped,
    resumed and evaluated like a run of `hackmatrix-rl train`, with the same exit status.
    """
    if demonstrations is not None:
        _save(context, demonstrations, games, given)
        return 0
    if context.get_parameter_source("games") is ParameterSource.COMMANDLINE:
        raise ConfigError(
            f"--games {games}: only --save-demonstrations writes games. Add --save-demonstrations "
            "FOLDER; --total-timesteps is the length of a training."
        )
    return cli.train_a_run(context, **given, defaults=_DEFAULTS, check=_check)


def _save(context: click.Context, folder: Path, games: int, given: Mapping[str, Any]) -> None:
    from hackmatrix_rl.algorithms.imitation._recording import record_demonstrations

    if given["resume_run"] is not None or given["dry_run"]:
        raise ConfigError("--save-demonstrations: cannot be used with --resume-run or --dry-run.")
    config = cli.chosen_config(context, given["preset"], given["config"], _DEFAULTS)
    _check(config)
    assert isinstance(config, ImitationConfig)
    assert config.teacher is not None
    environment = config.environment()
    if not isinstance(environment, envs.HackMatrix):
        raise ConfigError(
            f"--save-demonstrations {folder}: only for HackMatrix, not --env {config.env}."
        )
    said = f"--save-demonstrations {folder}: cannot be written: "
    with refusing(said, of=OSError), cli.Working("playing") as work:
        header = record_demonstrations(
            config.find_teacher(trust_code=given["trust_code"]),
            environment,
            folder,
            name=config.teacher,
            games=games,
            seed=config.seed,
            random_share=config.random_actions,
            num_envs=config.num_envs,
            on_progress=lambda done, all_: work.doing(f"playing: {done:,} of {all_:,} games"),
        )
    cli.say(
        f"{header.games:,} games of {header.teacher}, {header.positions:,} positions in "
        f"{len(header.shards)} files: {folder}"
    )


def _check(config: "configs.RunConfig") -> None:
    if not isinstance(config, ImitationConfig):
        raise ConfigError(
            f"--algorithm {config.algorithm}: imitate trains only by imitation. Use "
            "hackmatrix-rl train, also to resume a run of this algorithm."
        )
