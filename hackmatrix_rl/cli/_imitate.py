"""`hackmatrix-rl imitate`."""

import dataclasses
from typing import Any

import click

from hackmatrix_rl.cli._settings import (
    GROUPS,
    GroupedOptions,
    config_options,
    run_options,
    settings_epilog,
)
from hackmatrix_rl.cli._train import train_a_run
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.errors import ConfigError

_SHOWN = ("total_timesteps", "seed", "device", "run_dir", "league", "num_envs", "network")
_OWN = [
    each.name for each in dataclasses.fields(TrainConfig) if each.metadata["group"] == "Imitation"
]


@click.command(cls=GroupedOptions, epilog=settings_epilog(GROUPS))
@config_options(also=(*_SHOWN, *_OWN), in_help=False)
@run_options
@click.pass_context
def imitate(context: click.Context, /, **given: Any) -> int:
    """Train an agent to do what a teacher does (behaviour cloning and DAgger).

    The teacher (--teacher runner, or a run or a checkpoint) says what it would do in each
    position, and the agent learns that. At first the teacher plays the games, later the agent
    does. The run is one like those of `hackmatrix-rl train`: it is watched, stopped, resumed and
    evaluated in the same ways, with the same exit status.
    """
    return train_a_run(context, **given, defaults={"algorithm": "imitation"}, check=_check)


def _check(config: TrainConfig) -> None:
    if config.algorithm != "imitation":
        raise ConfigError(
            f"--algorithm {config.algorithm}: imitate trains only by imitation. Use "
            "hackmatrix-rl train, also to resume a run that learns so."
        )
