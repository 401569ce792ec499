"""How much memory training needs, from shapes alone: before anything is compiled."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from hackmatrix_rl.training.devices import chosen_devices
from hackmatrix_rl.training.offload import HOST
from hackmatrix_rl.training.program import is_shape
from hackmatrix_rl.training.trainer import Trainer


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the device that holds most.

    Attributes:
        state: of the training state, which is there all the time.
        rollout: of one rollout with what is computed for it, which is there while learning.
        learning: of a minibatch, the gradient, and what the network keeps for it: an upper
            bound, for the compiler computes some of it anew or never stores it.
        checkpoint: of one checkpoint on disk, before it is compressed; of all devices.
    """

    state: int
    rollout: int
    learning: int
    checkpoint: int

    @property
    def sure(self) -> int:
        """What no compiler can do without."""
        return self.state + self.rollout

    @property
    def total(self) -> int:
        """Everything, roughly; the compiled figure is nearer the truth."""
        return self.sure + self.learning


def estimate_memory(trainer: Trainer) -> MemoryEstimate:
    """Estimates what a trainer will need, from the shapes of what it will make.

    It takes the seconds that tracing a first reset takes, and no memory.
    """
    state = trainer.abstract_state()
    spec, policy = trainer.update.environment.spec, state.learner.policy
    num_steps = trainer.update.collect.num_steps
    devices = trainer.mesh.size
    # As `Rollout` keeps it: what was seen, the mask, the action, four float32 and two flags;
    # parts of the reward where they are asked for. Then advantage, value and target.
    step = _bytes(spec.observation) + spec.num_actions + 4 + 4 * 4 + 2
    step += 2 * len(trainer.update.collect.terms) + 3 * 4
    rollout = num_steps * math.ceil(trainer.num_envs / devices) * step
    parts = trainer.update.batches.num_minibatches * trainer.update.grad_accum
    shape, carry = spec.observation, jax.eval_shape(policy.initial_carry)
    kept = _intermediates(policy, shape, carry) * num_steps * trainer.num_envs / devices / parts
    if trainer.update.remat == "full":  # of one step at a time
        kept /= num_steps
    parameters = _on_a_device(eqx.filter(policy, _is_inexact))
    return MemoryEstimate(
        state=_on_a_device(state),
        rollout=rollout,
        learning=math.ceil(rollout / parts + kept) + 3 * parameters,
        checkpoint=_bytes(state) + _bytes(policy),
    )


def available_memory() -> tuple[int, str] | None:
    """Bytes that a device of this process can still take, and whose they are, in words.

    Devices of a CPU share the memory of the machine, or of the container. `None` where nobody
    tells.
    """
    devices = chosen_devices()
    if devices[0].platform == "cpu":
        free = _free_ram()
        return None if free is None else (free // len(devices), "free RAM")
    rooms = [stats["bytes_limit"] - stats.get("bytes_in_use", 0) for stats in _limits(devices)]
    return (min(rooms), f"{devices[0].platform.upper()} memory") if rooms else None


def _limits(devices: list[jax.Device]) -> list[Mapping[str, int]]:
    every = [device.memory_stats() or {} for device in devices]
    return [stats for stats in every if "bytes_limit" in stats]


def _free_ram(read: Callable[[Path], str] = Path.read_text) -> int | None:
    """The smaller of what the machine has free and what the container may still take."""
    found: list[int] = []
    try:
        lines = read(Path("/proc/meminfo")).splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:  # not Linux
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found.append(pages)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            most = read(Path(limit)).strip()
            if most != "max":
                found.append(int(most) - int(read(Path(used))))
        except OSError:  # no such control group
            continue
    return min(found, default=None)


def _is_inexact(leaf: Any) -> bool:
    return is_shape(leaf) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)


def _bytes(tree: Any) -> int:
    return sum(_size(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree) if is_shape(leaf))


def _on_a_device(tree: Any) -> int:
    """Bytes on one device, where arrays are cut over several or lie in the host's memory."""
    total = 0
    for leaf in jax.tree.leaves(tree):
        if is_shape(leaf) and getattr(leaf.sharding, "memory_kind", None) != HOST:
            cut = leaf.shape if leaf.sharding is None else leaf.sharding.shard_shape(leaf.shape)
            total += _size(cut, leaf.dtype)
    return total


def _size(shape: tuple[int, ...], dtype: Any) -> int:
    return math.prod(shape) * int(dtype.itemsize)


def _intermediates(policy: Any, observation: Any, carry: Any) -> int:
    """Bytes of everything that the network computes for one observation."""
    arrays, code = eqx.partition(policy, is_shape)

    def forward(arrays: Any, observation: Any, carry: Any) -> Any:
        return eqx.combine(arrays, code)(observation, carry)

    jaxpr = jax.make_jaxpr(forward)(arrays, observation, carry)
    return _outputs(jaxpr.jaxpr)


def _outputs(jaxpr: Any) -> int:
    """Bytes of all results in a program, and in the programs it calls."""
    total = 0
    for equation in jaxpr.eqns:
        inner = [each for each in map(_program, equation.params.values()) if each is not None]
        if inner:
            # A loop keeps what each of its turns computes.
            turns = equation.params.get("length", 1)
            total += turns * sum(_outputs(each) for each in inner)
        else:
            total += sum(_size(each.aval.shape, each.aval.dtype) for each in equation.outvars)
    return total


def _program(parameter: Any) -> Any:
    """The program that a parameter of an equation is, if it is one."""
    if hasattr(parameter, "jaxpr"):
        parameter = parameter.jaxpr
    return parameter if hasattr(parameter, "eqns") else None
