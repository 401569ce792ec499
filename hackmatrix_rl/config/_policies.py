"""From a config to its environment and its policy, the network."""

from functools import partial
from pathlib import PurePath
from typing import cast

import equinox as eqx
import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent import IdentityScale, RunningScale, ValueScale
from hackmatrix_rl.agent.networks import (
    NETWORKS,
    ActorCritic,
    add_auxiliary_head,
    build_network,
    module_of,
    rematerialized,
    with_value_head,
)
from hackmatrix_rl.algorithms.r2d2 import SquareRootScale
from hackmatrix_rl.config._algorithms import FROM_SEQUENCES
from hackmatrix_rl.config._config import (
    TrainConfig,
)
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.env import EnvSpec, HackMatrix, Kind
from hackmatrix_rl.errors import (
    ConfigError,
    shortened,
)
from hackmatrix_rl.system import (
    available_memory,
    bytes_of,
    format_bytes,
)

# Folded into the network's key; far from the numbers that splitting the key uses.
AUXILIARY_KEY, VALUE_KEY = 2**31 + 1, 2**31 + 2


def make_environment(config: TrainConfig) -> HackMatrix:
    """The environment of a config."""
    return HackMatrix(
        config.game(),
        max_steps=config.max_steps,
        observation=cast(Kind, config.observation),  # as the field's choices say
        reward=config.reward_config,
    )


def build_named(
    config: RunConfig, spec: EnvSpec, *, key: Key[Array, ""], copies: int = 1
) -> ActorCritic:
    """The network that a config names.

    Args:
        config: what to build.
        spec: the environment's.
        key: randomness of the weights.
        copies: arrays of the size of the parameters that a device holds.

    Raises:
        ConfigError: there is no such network, or it does not fit into memory.
    """
    build = partial(build_network, config.network, spec, width=config.width, depth=config.depth)
    try:
        if config.network in NETWORKS and (config.width or config.depth):
            _check_room(config, copies * bytes_of(eqx.filter_eval_shape(build, key=key)))
        return build(key=key)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"--network {config.network}: {error}") from error


def build_policy(
    config: TrainConfig, spec: EnvSpec, *, key: Key[Array, ""], copies: int = 1
) -> ActorCritic:
    """The network that a config names, with the heads that its losses need.

    Args:
        config: what to build.
        spec: the environment's.
        key: as for `build_named`. An auxiliary head does not change the other weights.
        copies: as for `build_named`.

    Raises:
        ConfigError: as for `build_named`, or the network lacks what the config asks for.
    """
    named = f"--network {config.network}"
    policy = build_named(config, spec, key=key, copies=copies)
    try:
        rematerialized(policy, config.remat)
    except ValueError as error:
        raise ConfigError(
            f"--remat {config.remat}: {named} cannot do that: {error}. Use --remat full or none, "
            "or --network residual, resnet or transformer."
        ) from error
    if config.value_head != "scalar":
        try:
            policy = with_value_head(
                policy, config.value_head, key=jax.random.fold_in(key, VALUE_KEY)
            )
        except ValueError as error:
            raise ConfigError(
                f"--value-head {config.value_head}: {named} cannot do that: {error}. "
                "Use --value-head scalar, or a network of this package."
            ) from error
    if config.aux_coefficient == 0:
        return policy
    try:
        return add_auxiliary_head(
            policy, spec, wins=config.aux_victory, key=jax.random.fold_in(key, AUXILIARY_KEY)
        )
    except ValueError as error:
        raise ConfigError(
            f"--aux-coefficient {config.aux_coefficient:g}: {named} cannot do that: {error}. "
            "Use --aux-coefficient 0, or a network of this package."
        ) from error


def check_trusted(config: RunConfig, source: PurePath, *, trust_code: bool) -> None:
    """Refuses a stored config whose network is code, unless the user trusts its author.

    Args:
        config: as stored; the user has not named its network.
        source: of the config.
        trust_code: whether the user trusts it.

    Raises:
        ConfigError: if building the network would import a module that the user does not trust.
    """
    module = module_of(config.network)
    if module is not None and not trust_code:
        network = shortened(config.network)
        raise ConfigError(
            f"{source}: its network {network} is code of the module {shortened(module)}, which "
            "would be imported and run. If you trust it, use --trust-code, or name it yourself: "
            f"--network {network} (in Python, trust_code=True or network=...)."
        )


def _check_room(config: RunConfig, needed: int) -> None:
    """Refuses a network that cannot fit into memory: XLA would end the process."""
    available = available_memory()
    if available is not None and needed > available[0]:
        given = [f"--{name} {getattr(config, name)}" for name in ("width", "depth")]
        named = " ".join(each for each in given if not each.endswith("None"))
        raise ConfigError(
            f"--network {config.network} {named} needs {format_bytes(needed)} for itself "
            f"alone, but there are {format_bytes(available[0])} of {available[1]}. Use a smaller "
            "--width or --depth."
        )


def build_value_scale(config: TrainConfig) -> ValueScale:
    """The units of the value network that a config names, as they are before training."""
    if config.algorithm == FROM_SEQUENCES:
        return SquareRootScale() if config.rescale_values else IdentityScale()
    if config.value_scale == "none":
        return IdentityScale()
    return RunningScale(compress=config.value_scale == "compressed")
