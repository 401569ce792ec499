"""Loads a network of supervised learning."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
from etils import epath

from hackmatrix_rl.algorithms.supervised._config import SupervisedConfig
from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork
from hackmatrix_rl.runs import checkpoints
from hackmatrix_rl.runs.config import config_from_dict
from hackmatrix_rl.system.errors import ConfigError


@dataclass(frozen=True)
class LoadedAnswers:
    """A network trained by `Supervised`, the config of its training, and the checkpoint folder."""

    policy: AnswerNetwork
    config: SupervisedConfig
    folder: epath.Path


def load_answers(run: str | Path, *, report: checkpoints.Report = warnings.warn) -> LoadedAnswers:
    """Loads a network of supervised learning: the newest of a run, or the one in a checkpoint.

    Args:
        run: a run's folder, its name under `runs/`, a folder of checkpoints (also remote), or one
            checkpoint.
        report: takes a message about each skipped checkpoint.

    Raises:
        ConfigError: there is no checkpoint, it is from another algorithm, or its format or network
            is incompatible.
    """
    folder, _hold = checkpoints.hold_checkpoint(run, report=report)
    metadata = checkpoints.read_metadata(folder)
    checkpoints.check_playable(folder, metadata)
    config = config_from_dict(metadata["config"])
    if not isinstance(config, SupervisedConfig):
        raise ConfigError(
            f"{folder}: trained by --algorithm {config.algorithm}. Use {config.loader}."
        )
    policy = config.policy(key=jax.random.key(0))
    stored = checkpoints.to_device(checkpoints.restore(folder, "policy", policy, report=report))
    return LoadedAnswers(stored, config, folder)
