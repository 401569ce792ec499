"""Builds the trainer of a config."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import Array, Key

from hackmatrix_rl.agent import check_policy_numbers, check_policy_shapes
from hackmatrix_rl.agent.networks import ActorCritic, rematerialized, unwrapped
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.runs._keys import network_key
from hackmatrix_rl.runs.checkpoints import Report, initial_weights
from hackmatrix_rl.runs.config import (
    LEAST_GAMES,
    PBT_ARGUMENTS,
    Given,
    RunConfig,
    TrainConfig,
    check_platform,
    exploit_arguments,
    precision_of,
)
from hackmatrix_rl.system import Target, chosen_devices, is_single_process, make_deterministic
from hackmatrix_rl.system.errors import (
    ArgumentError,
    ConfigError,
    as_given,
    flag,
    in_flags,
    is_ours,
    refusing,
)
from hackmatrix_rl.training import (
    ONE_AVERAGE,
    Algorithm,
    Population,
    PopulationBasedTraining,
    Trainer,
    check_members,
)
from hackmatrix_rl.training.sharding import (
    AUTO,
    FSDP,
    POPULATION,
    check_offload,
    mesh,
    most_devices,
)


def compose(
    config: RunConfig,
    *,
    key: Key[Array, ""] | None = None,
    read_init: bool = False,
    trust_code: bool = False,
    target: Target | None = None,
    report: Report = warnings.warn,
) -> Trainer[Any]:
    """Builds network, algorithm and trainer. Nothing is compiled yet.

    `key` initializes the network's weights; by default it follows from the run's seed. With
    `read_init`, the weights of `config.init` replace them; a resumed training restores its own.
    With `trust_code`, code that other runs name, such as a teacher's, may be imported. A trainer
    for a `target` can be lowered and compiled, but not run. `report` takes messages about
    `config.init`.

    Raises:
        ConfigError: the network, the mesh or `config.init` does not exist here, does not fit, or
            does not support a setting.
    """
    if config.deterministic:
        make_deterministic()
    devices = make_mesh(config, target)
    spec = config.spec()
    if config.offload_optimizer:
        advice = "a --mesh with an fsdp of 2 or more shards the state over devices instead."
        with refusing("--offload-optimizer: ", f". Use --no-offload-optimizer; {advice}"):
            check_offload(devices.devices.flat[0])
    copies = config.copies + (config.ema is not None) - (config.optimizer in ONE_AVERAGE)
    apart = config.offload_optimizer or devices.shape[FSDP] > 1
    key = network_key(config) if key is None else key
    with in_flags():
        policy = config.policy(key=key, copies=1 if apart else copies)
    said = f"--remat {config.remat}: --network {config.network} cannot do that: "
    blocks = "residual, resnet, transformer or recursive"
    advice = f". Use --remat full or none, or --network {blocks}."
    with refusing(said, advice):
        rematerialized(policy, config.remat)
    value_scale = config.initial_scale()
    if read_init and isinstance(config, TrainConfig) and config.init is not None:
        policy, stored_scale = initial_weights(config, policy, report=report)
        value_scale = value_scale if stored_scale is None else stored_scale
    computes = precision_here(config, policy, target)
    if not is_ours(unwrapped(policy)):
        with refusing(f"--network {config.network}: ", of=(TypeError, ValueError)):
            check_policy_shapes(policy, spec, precision=computes)
            check_policy_numbers(policy, spec)
    given: Given = {"mesh": devices, "precision": computes, "value_scale": value_scale}
    try:
        algorithm = config.build(policy, trust_code=trust_code, **given)
        if config.members > 1:
            algorithm = _population(config, algorithm, trust_code=trust_code, **given)
    except ArgumentError as error:
        if error.argument == "policy":
            raise ConfigError(f"--network {config.network}: {error}.") from error
        raise ConfigError(error.as_flags()) from error
    with in_flags(PBT_ARGUMENTS):
        return Trainer(
            algorithm,
            updates_per_dispatch=config.updates_per_dispatch,
            eager=config.eager,
            report=lambda remark: None,  # `doubts` shows them
        )


def _population(
    config: RunConfig, first: Algorithm[Any], *, trust_code: bool, **given: Unpack[Given]
) -> Population[Any]:
    """The population of `seeds` and `vary`; `first` is the algorithm of its first member.

    With `init`, all members start from its weights, which `first` already has.
    """
    configs = config.member_configs()
    policies = [first.initial_policy] * len(configs)
    if getattr(config, "init", None) is None:
        policies = [each.policy(key=network_key(each)) for each in configs]
    algorithms: dict[Any, Algorithm[Any]] = {}
    members = []
    for each, policy in zip(configs, policies, strict=True):
        settings = replace(each, seed=config.seed)  # no algorithm depends on the seed
        if settings not in algorithms:
            algorithms[settings] = settings.build(policy, trust_code=trust_code, **given)
        members.append(eqx.tree_at(lambda made: made.initial_policy, algorithms[settings], policy))
    with refusing(f"--vary {config.vary}: "):
        plain = Population(members)
    if not isinstance(config, TrainConfig) or config.pbt_interval is None:
        return plain
    with in_flags(PBT_ARGUMENTS):
        return PopulationBasedTraining(members, **exploit_arguments(config))


def precision_here(
    config: RunConfig, policy: ActorCritic, target: Target | None = None
) -> PrecisionPolicy:
    """The precision policy of a config, checked against the devices and the network."""
    computes = precision_of(config)
    check_platform(computes, (target or chosen_devices()[0]).platform)
    given = f"--precision-parts {config.precision_parts}: " if config.precision_parts else ""
    with refusing(given):
        computes.check(policy)
    return computes


def make_mesh(config: RunConfig, target: Target | None = None) -> Mesh:
    """The mesh of a config, on the devices of this machine or of a target."""
    text = config.mesh
    members = config.members
    config.check_played_in_python()
    devices: Sequence[jax.Device]
    if config.one_device:
        if text not in (AUTO, "data=1"):
            raise ConfigError(
                f"--mesh {text}: one device plays games in Python. Leave --mesh out, or use data=1."
            )
        text = "data=1"
    here = target is None and is_single_process()
    if text == AUTO and members > 1:
        devices = chosen_devices() if target is None else target.devices
        parts = most_devices(members, len(devices))
        text = f"population={parts},data={most_devices(config.at_once, len(devices) // parts)}"
    if text == AUTO and config.cpu_devices is not None and here:
        # A CPU is split only for speed: into as many devices as divide the games and get at least
        # `LEAST_GAMES` each.
        devices = chosen_devices()
        if devices[0].platform == "cpu":
            enough = max(1, config.at_once // LEAST_GAMES)
            text = f"data={most_devices(config.at_once, min(len(devices), enough))}"
    made = named_mesh(text, target)
    if POPULATION in made.shape and members == 1:
        raise ConfigError(
            f"--mesh {text}: shards several trainings over devices. Add --seeds "
            f"{made.shape[POPULATION]}, say, or use data."
        )
    with in_flags():
        check_members(members, made.shape)
    config.check_mesh(made)
    _check_hosts(text, made, target)
    return made


def _check_hosts(text: str, made: Mesh, target: Target | None) -> None:
    """Refuses a mesh that leaves a process without a device, which would end the run."""
    if target is None:
        all_devices = jax.device_count(made.devices.flat[0].platform)
        idle = len({each.process_index for each in made.devices.flat}) < jax.process_count()
    else:
        all_devices = len(target.devices)
        idle = target.hosts > 1 and made.size < all_devices
    if idle:
        raise ConfigError(
            f"--mesh {text}: leaves a process of the run without a device. Use auto, or a mesh of "
            f"all {all_devices} devices."
        )


def named_mesh(text: str, target: Target | None = None) -> Mesh:
    """The mesh of a text as `--mesh` takes it; its errors name the flag."""
    with in_flags():
        return mesh(text, None if target is None else target.devices)


def check_alone(config: RunConfig, command: str) -> None:
    """Refuses several trainings in one program for a command that does one at a time."""
    if config.members > 1:
        name = "seeds" if config.vary is None else "vary"
        raise ConfigError(
            f"{as_given(name, getattr(config, name))}: {command} does one training at a time. "
            f"Leave {flag(name)} out."
        )
