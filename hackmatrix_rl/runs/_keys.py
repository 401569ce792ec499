"""The random keys of a run. All of them are derived from its seed here."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.training import EVALUATION


def run_keys(seed: int) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of a seed: for the network's weights, and for training."""
    network, training = jax.random.split(jax.random.key(seed))
    return network, training


def network_key(config: RunConfig) -> Key[Array, ""]:
    """The key of the network's weights; of several trainings, the first one's."""
    return run_keys(config.seed)[0]


def training_keys(config: RunConfig) -> Key[Array, "*members"]:
    """The key of a run's training, or one key for each of its trainings."""
    if config.members > 1:
        return jnp.stack([run_keys(each.seed)[1] for each in config.member_configs()])
    return run_keys(config.seed)[1]


def stage_keys(config: RunConfig, update: int) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of a later stage that starts at `update`: for the weights, and for training."""
    network, training = run_keys(config.seed)
    return jax.random.fold_in(network, update), jax.random.fold_in(training, update)


def evaluation_key(config: RunConfig) -> Key[Array, ""]:
    """The key of the games that a run is evaluated on."""
    return jax.random.fold_in(run_keys(config.seed)[1], EVALUATION)
