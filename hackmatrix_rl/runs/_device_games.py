"""How many games a preset plays at once on the devices of a machine or of a target."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._preflight import estimate_memory
from hackmatrix_rl.runs.config import AUTO, DeviceGames, RunConfig, check_range, typed
from hackmatrix_rl.system import (
    ACCELERATORS,
    Target,
    is_process_zero,
    memory_limit,
    multiprocessors,
)
from hackmatrix_rl.system.errors import in_flags
from hackmatrix_rl.training.sharding import parse_mesh

_OF_A_MULTIPROCESSOR = 512  # 65,536 on an H100, the fastest of the measured numbers for training
_OF_A_TPU = 4096  # the number that the TPU's compiler was asked about
_ASSUMED = 8  # multiprocessors of a GPU that does not say; every card for servers has more
_PREALLOCATED = 0.75  # the share of a GPU's memory that JAX takes
# The estimate is a lower bound: the compiler asked for three (bf16) to five times (f32) as much.
_SHARE = 8
_FEWEST = 256  # games of a device; if they do not fit, `preflight` says what helps


def games_of_devices(
    settings: Mapping[str, Any], target: Target | None, report: Callable[[str], object]
) -> DeviceGames | None:
    """The games that the multiprocessors of GPUs, or TPUs, play at once.

    The `settings` name device and mesh. `None` on other devices, and if there are none of this
    kind, which the caller refuses. `report` takes a line about a GPU that is not known.
    """
    kind, mesh = (_setting(name, settings) for name in ("device", "mesh"))
    if target is None:
        try:
            devices = jax.devices(None if kind == AUTO else kind)
        except RuntimeError:
            return None
        device = jax.local_devices(backend=devices[0].platform)[0]
    else:
        devices, device = list(target.devices), target.devices[0]
    with in_flags():
        lengths = parse_mesh(mesh)
    number = len(devices) if lengths is None else math.prod(lengths.values())
    if device.platform == "tpu":
        return DeviceGames(_OF_A_TPU, number)
    if device.platform not in ("gpu", "cuda", "rocm"):
        return None
    if (count := multiprocessors(device)) is None:
        count = _ASSUMED
        if is_process_zero():
            report(
                f"{device.device_kind} is unknown: JAX does not say how many multiprocessors it "
                f"has. --preset gpu assumes {count}, so {count * _OF_A_MULTIPROCESSOR:,} games on "
                "each device; --num-envs sets another number."
            )
    return DeviceGames(1 << (count * _OF_A_MULTIPROCESSOR).bit_length() - 1, number)


def _setting(name: str, settings: Mapping[str, Any]) -> Any:
    """A checked setting of every run."""
    field = RunConfig.__dataclass_fields__[name]
    value = typed(field, settings.get(name, field.default))
    check_range(field, value)
    return value


def fitting(
    stages: Sequence[RunConfig],
    room: DeviceGames,
    target: Target | None,
    *,
    trust_code: bool = False,
) -> DeviceGames:
    """Fewer games if those of the stages of a training may not fit into the memory of a device."""
    halvings = 0
    for config in stages:
        trainer = compose(config, trust_code=trust_code, target=target)
        memory = _memory(trainer.mesh.devices.flat[0])
        if memory is not None:
            times = estimate_memory(trainer).sure * _SHARE / memory
            halvings = max(halvings, math.ceil(math.log2(max(times, 1))))
    return replace(room, games=max(room.games >> halvings, min(room.games, _FEWEST)))


def _memory(device: jax.Device) -> int | None:
    """Bytes that JAX takes of a device by default; the same for a device and its description."""
    known = ACCELERATORS.get(device.device_kind)
    share = 1 if device.platform == "tpu" else _PREALLOCATED
    limits = [None if known is None else round(known.memory * share), memory_limit(device)]
    return min((each for each in limits if each is not None), default=None)
