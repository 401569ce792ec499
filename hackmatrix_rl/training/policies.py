"""From a config to the policy that it speaks of."""

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent import ActorCritic, add_outcomes, build_network, rematerialized
from hackmatrix_rl.env.environment import EnvSpec
from hackmatrix_rl.training.config import ConfigError, TrainConfig

# Folded into the network's key: any number far from those that splitting it uses.
OUTCOMES_KEY = 2**31 + 1


def build_policy(config: TrainConfig, spec: EnvSpec, *, key: Key[Array, ""]) -> ActorCritic:
    """The network that a config speaks of, with the heads that its losses need.

    Args:
        config: what to build.
        spec: of the environment.
        key: randomness of the weights. Those that act depend on it alone, not on whether
            there is an auxiliary loss.

    Raises:
        ConfigError: there is no such network, or it cannot do what is asked.
    """
    named = f"--network {config.network}"
    try:
        policy = build_network(
            config.network, spec, width=config.width, depth=config.depth, key=key
        )
    except ValueError as error:
        raise ConfigError(f"{named}: {error}") from error
    try:
        rematerialized(policy, config.remat)
    except ValueError as error:
        raise ConfigError(
            f"--remat {config.remat}: {named} cannot, for {error}. Use --remat full or none, or "
            "--network residual."
        ) from error
    if config.aux_coefficient == 0:
        return policy
    try:
        return add_outcomes(policy, spec, key=jax.random.fold_in(key, OUTCOMES_KEY))
    except ValueError as error:
        raise ConfigError(
            f"--aux-coefficient {config.aux_coefficient:g}: {named} cannot, for {error}. Use "
            "--aux-coefficient 0, or a network of this package."
        ) from error
