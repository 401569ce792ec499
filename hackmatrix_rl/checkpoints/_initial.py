"""`--init`: the weights that a new training starts from."""

import warnings

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.checkpoints._finder import Report, find_checkpoint
from hackmatrix_rl.checkpoints._metadata import check_playable, read_metadata
from hackmatrix_rl.checkpoints._reader import load
from hackmatrix_rl.config import TrainConfig, config_from_dict
from hackmatrix_rl.errors import ConfigError, flag

ALIKE = ("league", "observation", "network", "width", "depth")
"""Settings that decide what the weights mean; rules and actions have an identity besides."""


def initial_weights(
    config: TrainConfig, policy: ActorCritic, *, report: Report = warnings.warn
) -> tuple[ActorCritic, ValueScale | None]:
    """The weights of `config.init`, and the units of their value.

    The value head comes along with its units, if both trainings have the same kind of units.
    Optimizer and counters begin anew. The code that the other run names is not imported.

    Args:
        config: the settings of the new training.
        policy: its network; only its shapes matter.
        report: takes a message about each skipped checkpoint.

    Returns:
        The network with the weights, and the units; `None` where they begin anew.

    Raises:
        ConfigError: there is no such checkpoint, or it is of another game, observation, action
            set, league or network. The message names the setting or the array.
    """
    assert config.init is not None, "nothing to start from"
    try:
        folder = find_checkpoint(config.init, report=report)
        metadata = read_metadata(folder)
        check_playable(folder, metadata)
        other = config_from_dict(metadata["config"])
        _check_alike(config, other)
        loaded = load(str(folder), policy=policy, report=report)
        scale = loaded.value_scale() if other.value_scale == config.value_scale else None
    except ConfigError as error:
        raise ConfigError(f"--init {config.init}: {error}") from error
    return loaded.policy, scale


def _check_alike(config: TrainConfig, other: TrainConfig) -> None:
    for name in ALIKE:
        here, there = getattr(config, name), getattr(other, name)
        if here != there:
            was, is_now = ("none" if value is None else value for value in (there, here))
            raise ConfigError(
                f"trained with {flag(name)} {was}, but this training has {flag(name)} {is_now}. "
                f"Use {flag(name)} {was}, or start from another."
            )
