"""Builds the modules of a config."""

from collections.abc import Sequence

import jax
from jax.sharding import Mesh
from jaxtyping import Array, Key

from hackmatrix_rl.agent import (
    GAE,
    AdvantageEstimator,
    AuxiliaryLoss,
    PPOLoss,
    check_policy_shapes,
)
from hackmatrix_rl.agent.networks import VICTORY
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.config import (
    TrainConfig,
    build_policy,
    build_value_scale,
    check_config_on_mesh,
    check_platform,
    make_environment,
)
from hackmatrix_rl.errors import (
    ConfigError,
    is_ours,
)
from hackmatrix_rl.game import TERM_NAMES
from hackmatrix_rl.runs._preflight import check_games
from hackmatrix_rl.system import chosen_devices, is_single_process, make_deterministic
from hackmatrix_rl.training import (
    CHECKS,
    NANS,
    NOJIT,
    PPO,
    Constant,
    Linear,
    Loss,
    Schedule,
    Trainer,
    adam,
    checked,
)
from hackmatrix_rl.training.sharding import (
    AUTO,
    FSDP,
    check_offload,
    mesh,
    most_devices,
)


def compose(config: TrainConfig, *, key: Key[Array, ""]) -> Trainer[PPO]:
    """Builds environment, network and trainer. Nothing is compiled yet.

    Args:
        config: the settings.
        key: randomness of the network's weights.

    Raises:
        ConfigError: the network or the mesh does not exist here, or cannot do what the config
            asks for.
    """
    if config.deterministic:
        make_deterministic()
    devices = make_mesh(config)
    environment = make_environment(config)
    check_games(config, environment.spec, devices=devices.size)
    # The optimizer holds two numbers for each parameter, on the same device by default.
    apart = config.offload_optimizer or devices.shape[FSDP] > 1
    policy = build_policy(config, environment.spec, key=key, copies=1 if apart else 3)
    computes = precision(config.precision, config.precision_table)
    check_platform(computes, chosen_devices()[0].platform)
    try:
        computes.check(policy)
    except ValueError as error:
        given = f"--precision-parts {config.precision_parts}: " if config.precision_parts else ""
        raise ConfigError(f"{given}{error}.") from error
    if not is_ours(policy):
        try:
            check_policy_shapes(policy, environment.spec, precision=computes)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"--network {config.network}: {error}.") from error
    if config.offload_optimizer:
        _check_offload(devices)
    loss: Loss = PPOLoss(
        clip_coef=config.clip_coef,
        vf_coef=config.vf_coef,
        ent_coef=config.ent_coef,
        value_clip=config.value_clip,
        normalize_advantage=config.normalize_advantage,
        auxiliary=_auxiliary(config),
    )
    gae: AdvantageEstimator = GAE(gamma=config.gamma, gae_lambda=config.gae_lambda)
    if config.debug in (NANS, CHECKS):
        loss, gae = checked(loss, gae, config.debug)
    if config.debug == NOJIT and devices.size > 1:
        raise ConfigError(
            f"--debug nojit works on one device, not on {devices.size} (--mesh {config.mesh}). Add "
            "--mesh data=1."
        )
    return Trainer(
        environment,
        policy,
        loss=loss,
        gae=gae,
        optimizer=adam(config.max_grad_norm),
        learning_rate=_learning_rate(config),
        precision=computes,
        value_scale=build_value_scale(config),
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        num_minibatches=config.minibatches,
        update_epochs=config.update_epochs,
        target_kl=config.target_kl,
        grad_accum=config.grad_accum,
        remat=config.remat,
        offload_optimizer=config.offload_optimizer,
        updates_per_dispatch=config.updates_per_dispatch,
        mesh=devices,
        eager=config.debug == NOJIT,
    )


def make_mesh(config: TrainConfig) -> Mesh:
    """The mesh of a config.

    Raises:
        ConfigError: the devices do not exist, or the games do not divide over them.
    """
    text = config.mesh
    if text == AUTO and config.cpu_devices is not None and is_single_process():
        text = _as_many_as_fit(config, chosen_devices())
    try:
        devices = mesh(text)
    except ValueError as error:
        raise ConfigError(f"--{error}".replace("Use mesh", "Use --mesh")) from error
    check_config_on_mesh(config, devices.shape)
    return devices


def _as_many_as_fit(config: TrainConfig, devices: Sequence[jax.Device]) -> str:
    """`auto` for a CPU that was cut into devices only for speed: as many as divide the games."""
    if devices[0].platform != "cpu":
        return AUTO
    at_once = config.num_envs // (config.minibatches * config.grad_accum)
    most = 1 if config.debug == NOJIT else most_devices(at_once, len(devices))
    return f"data={most}"


def _check_offload(devices: Mesh) -> None:
    try:
        check_offload(devices.local_devices[0])
    except ValueError as error:
        raise ConfigError(
            f"--offload-optimizer: {error}. Use --no-offload-optimizer; a --mesh with an fsdp of "
            "2 or more cuts the state over devices instead."
        ) from error


def run_keys(seed: int) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of a run: for the network's weights, and for training."""
    network, training = jax.random.split(jax.random.key(seed))
    return network, training


def _learning_rate(config: TrainConfig) -> Schedule:
    if config.learning_rate_schedule == "constant":
        return Constant(config.learning_rate)
    return Linear(config.learning_rate, 0.0, over=config.num_updates * config.batch)


def _auxiliary(config: TrainConfig) -> AuxiliaryLoss | None:
    if config.aux_coefficient == 0:
        return None
    victory = TERM_NAMES.index(VICTORY) if config.aux_victory else None
    return AuxiliaryLoss(config.aux_coefficient, config.aux_every, victory)
