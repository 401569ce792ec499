"""Builds the modules of a config."""

from functools import partial

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
from hackmatrix_rl.agent.networks import VICTORY, ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy, precision
from hackmatrix_rl.algorithms.ppo import PPO, check_teacher, critic_warmup_of
from hackmatrix_rl.checkpoints import initial_weights
from hackmatrix_rl.config import (
    FROM_REWARDS,
    RunConfig,
    TrainConfig,
    build_policy,
    build_value_scale,
    check_config_on_mesh,
    check_platform,
    make_environment,
    schedule_of,
)
from hackmatrix_rl.env import BLOCK, Frontier, HackMatrix
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


def compose(config: TrainConfig, *, key: Key[Array, ""], read_init: bool = False) -> Trainer[PPO]:
    """Builds environment, network and trainer. Nothing is compiled yet.

    Args:
        config: the settings.
        key: randomness of the network's weights.
        read_init: whether to start from the weights that `config.init` names. A resumed training
            has its own.

    Raises:
        ConfigError: the network, the mesh or `config.init` does not exist here, does not fit, or
            cannot do what the config asks for.
    """
    if config.deterministic:
        make_deterministic()
    devices = make_mesh(config)
    environment = make_environment(config)
    begins = environment if config.frontier_share == 0 else _frontier(config, environment, devices)
    check_games(config, environment.spec, devices=devices.size)
    # The optimizer holds two numbers for each parameter, on the same device by default.
    apart = config.offload_optimizer or devices.shape[FSDP] > 1
    policy = build_policy(config, environment.spec, key=key, copies=1 if apart else 3)
    value_scale = build_value_scale(config)
    if read_init and config.init is not None:
        policy, stored_scale = initial_weights(config, policy)
        value_scale = value_scale if stored_scale is None else stored_scale
    computes = precision_here(config, policy)
    if not is_ours(policy):
        try:
            check_policy_shapes(policy, environment.spec, precision=computes)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"--network {config.network}: {error}.") from error
    if config.offload_optimizer:
        _check_offload(devices)
    _check_start(config, policy)
    scheduled = partial(schedule_of, steps=_steps(config))
    loss: Loss = PPOLoss(
        clip_coef=config.clip_coef,
        vf_coef=config.vf_coef,
        ent_coef=scheduled(config.ent_coef),
        value_clip=config.value_clip,
        normalize_advantage=config.normalize_advantage,
        auxiliary=_auxiliary(config),
        teacher_kl_coef=scheduled(config.teacher_kl),
    )
    gae: AdvantageEstimator = GAE(gamma=scheduled(config.gamma), gae_lambda=config.gae_lambda)
    if config.debug in (NANS, CHECKS):
        loss, gae = checked(loss, gae, config.debug)
    if config.debug == NOJIT and devices.size > 1:
        raise ConfigError(
            f"--debug nojit works on one device, not on {devices.size} (--mesh {config.mesh}). Add "
            "--mesh data=1."
        )
    algorithm = PPO(
        begins,
        policy,
        loss=loss,
        gae=gae,
        optimizer=adam(config.max_grad_norm),
        learning_rate=learning_rate(config),
        precision=computes,
        value_scale=value_scale,
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        num_minibatches=config.minibatches,
        update_epochs=config.update_epochs,
        target_kl=config.target_kl,
        critic_warmup=config.critic_warmup_timesteps,
        grad_accum=config.grad_accum,
        remat=config.remat,
        offload_optimizer=config.offload_optimizer,
        mesh=devices,
    )
    return Trainer(
        algorithm,
        updates_per_dispatch=config.updates_per_dispatch,
        eager=config.debug == NOJIT,
    )


def precision_here(config: RunConfig, policy: ActorCritic) -> PrecisionPolicy:
    """The precision policy of a config.

    Args:
        config: the settings.
        policy: the network that computes by it.

    Raises:
        ConfigError: the devices do not compute so, or it names parts that the network lacks.
    """
    computes = precision(config.precision, config.precision_table)
    check_platform(computes, chosen_devices()[0].platform)
    try:
        computes.check(policy)
    except ValueError as error:
        given = f"--precision-parts {config.precision_parts}: " if config.precision_parts else ""
        raise ConfigError(f"{given}{error}.") from error
    return computes


def check_is_ppo(config: TrainConfig, command: str) -> None:
    """Raises a ConfigError if a command that knows only PPO is asked for another algorithm.

    Args:
        config: the settings.
        command: the command's name.
    """
    if config.algorithm != FROM_REWARDS:
        raise ConfigError(
            f"--algorithm {config.algorithm}: {command} knows only PPO. Leave it out, or use "
            "hackmatrix-rl train."
        )


def _frontier(config: TrainConfig, environment: HackMatrix, devices: Mesh) -> Frontier:
    """The environment in which some games begin at saved positions."""
    if config.num_envs % (BLOCK * devices.size):
        raise ConfigError(
            f"--frontier-share {config.frontier_share:g}: blocks of {BLOCK} games share saved "
            f"positions, and --num-envs {config.num_envs} on {devices.size} devices are no whole "
            f"blocks. Use a multiple of {BLOCK * devices.size} as --num-envs, or another --mesh."
        )
    return Frontier(environment, config.frontier_share)


def make_mesh(config: TrainConfig) -> Mesh:
    """The mesh of a config.

    Raises:
        ConfigError: the devices do not exist, or the games do not divide over them.
    """
    at_once = config.num_envs // (config.minibatches * config.grad_accum)
    devices = mesh_of(config, at_once=1 if config.debug == NOJIT else at_once)
    check_config_on_mesh(config, devices.shape)
    return devices


def mesh_of(config: RunConfig, *, at_once: int) -> Mesh:
    """The mesh that a config names. Whether the games divide over it is not checked.

    Args:
        config: the settings.
        at_once: what `auto` divides over a CPU that was cut into devices only for speed: as many
            devices as divide it.

    Raises:
        ConfigError: the devices do not exist.
    """
    text = config.mesh
    if text == AUTO and config.cpu_devices is not None and is_single_process():
        devices = chosen_devices()
        if devices[0].platform == "cpu":
            text = f"data={most_devices(at_once, len(devices))}"
    return named_mesh(text)


def named_mesh(text: str) -> Mesh:
    """The mesh that `--mesh` names.

    Raises:
        ConfigError: the text is no mesh, or the devices do not exist.
    """
    try:
        return mesh(text)
    except ValueError as error:
        raise ConfigError(f"--{error}".replace("Use mesh", "Use --mesh")) from error


def _check_offload(devices: Mesh) -> None:
    try:
        check_offload(devices.local_devices[0])
    except ValueError as error:
        raise ConfigError(
            f"--offload-optimizer: {error}. Use --no-offload-optimizer; a --mesh with an fsdp of "
            "2 or more cuts the state over devices instead."
        ) from error


def _check_start(config: TrainConfig, policy: ActorCritic) -> None:
    """Raises a ConfigError if the network cannot start as the config says."""
    try:
        if config.teacher_kl != 0:
            check_teacher(policy)
    except ValueError as error:
        raise ConfigError(
            f"--teacher-kl {config.teacher_kl}: {error}. Use another --network."
        ) from error
    try:
        critic_warmup_of(config.critic_warmup_timesteps, policy)
    except ValueError as error:
        raise ConfigError(
            f"--critic-warmup-timesteps {config.critic_warmup_timesteps}: {error}."
        ) from error


def run_keys(seed: int) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of a run: for the network's weights, and for training."""
    network, training = jax.random.split(jax.random.key(seed))
    return network, training


def learning_rate(config: TrainConfig) -> Schedule:
    """The learning rate of a training on HackMatrix, over its environment steps."""
    rate = schedule_of(config.learning_rate, steps=_steps(config))
    if isinstance(rate, Schedule):
        return rate
    assert isinstance(rate, float)
    if config.learning_rate_schedule == "constant":
        return Constant(rate)
    return Linear(rate, 0.0, over=_steps(config))


def _steps(config: TrainConfig) -> int:
    """Environment steps of the whole training, over which schedules go."""
    return config.num_updates * config.batch


def _auxiliary(config: TrainConfig) -> AuxiliaryLoss | None:
    if config.aux_coefficient == 0:
        return None
    victory = TERM_NAMES.index(VICTORY) if config.aux_victory else None
    return AuxiliaryLoss(config.aux_coefficient, config.aux_every, victory)
