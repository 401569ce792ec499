"""From a config to the policy that it speaks of."""

from functools import partial
from pathlib import PurePath

import equinox as eqx
import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import (
    NETWORKS,
    ActorCritic,
    add_auxiliary_head,
    build_network,
    module_of,
    rematerialized,
)
from hackmatrix_rl.config._config import (
    TrainConfig,
)
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.errors import (
    ConfigError,
)
from hackmatrix_rl.system import (
    available_memory,
    bytes_of,
    format_bytes,
)

# Folded into the network's key: any number far from those that splitting it uses.
OUTCOMES_KEY = 2**31 + 1


def build_policy(
    config: TrainConfig, spec: EnvSpec, *, key: Key[Array, ""], copies: int = 1
) -> ActorCritic:
    """The network that a config speaks of, with the heads that its losses need.

    Args:
        config: what to build.
        spec: of the environment.
        key: randomness of the weights. Those that act depend on it alone, not on whether
            there is an auxiliary loss.
        copies: arrays of the size of its parameters that a device is to hold.

    Raises:
        ConfigError: there is no such network, it cannot do what is asked, or it does not fit
            into memory.
    """
    named = f"--network {config.network}"
    build = partial(build_network, config.network, spec, width=config.width, depth=config.depth)
    try:
        if config.network in NETWORKS and (config.width or config.depth):
            _check_room(config, copies * bytes_of(eqx.filter_eval_shape(build, key=key)))
        policy = build(key=key)
    except ConfigError:
        raise
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
        return add_auxiliary_head(policy, spec, key=jax.random.fold_in(key, OUTCOMES_KEY))
    except ValueError as error:
        raise ConfigError(
            f"--aux-coefficient {config.aux_coefficient:g}: {named} cannot, for {error}. Use "
            "--aux-coefficient 0, or a network of this package."
        ) from error


def check_trusted(config: TrainConfig, source: PurePath, *, trust_code: bool) -> None:
    """Refuses a stored config whose network is code, unless its author is trusted.

    Args:
        config: as stored, its network not named anew by whoever reads it.
        source: of the config.
        trust_code: whether they say that they trust it.

    Raises:
        ConfigError: if building the network would import a module, and nobody said to.
    """
    module = module_of(config.network)
    if module is not None and not trust_code:
        raise ConfigError(
            f"{source}: its network {config.network} is code of the module {module}, which would "
            "be imported and run. If you trust it, use --trust-code, or name it yourself: "
            f"--network {config.network} (in Python, trust_code=True or network=...)."
        )


def _check_room(config: TrainConfig, needed: int) -> None:
    """Refuses a network that cannot fit, before it is made: XLA would end the process."""
    available = available_memory()
    if available is not None and needed > available[0]:
        given = [f"--{name} {getattr(config, name)}" for name in ("width", "depth")]
        named = " ".join(each for each in given if not each.endswith("None"))
        raise ConfigError(
            f"--network {config.network} {named} needs {format_bytes(needed)} for itself "
            f"alone, but there are {format_bytes(available[0])} of {available[1]}. Use a smaller "
            "--width or --depth."
        )
