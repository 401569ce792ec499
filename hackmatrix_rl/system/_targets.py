"""Slices of TPUs that are not here: their compiler needs only a description of them.

Sources: Google Cloud, "TPU versions" (names and memory); JAX, `jax.experimental.topologies`.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax

from hackmatrix_rl.errors import ConfigError, shortened

_GIB = 2**30


@dataclass(frozen=True)
class Target:
    """A slice to compile for; nothing runs on its devices.

    Attributes:
        name: one of `target_names()`, with the number of slices before it if there are several:
            `2xv4-64`.
        devices: descriptions of its devices, in the order of a mesh.
        memory: bytes of one device.
    """

    name: str
    devices: tuple[jax.Device, ...]
    memory: int

    @property
    def platform(self) -> str:
        """The kind of device, as JAX names it."""
        return self.devices[0].platform

    @cached_property
    def hosts(self) -> int:
        """Number of machines; a training has one process on each."""
        return len({device.process_index for device in self.devices})


class _Generation(NamedTuple):
    """The slices of one generation.

    `kind` is what JAX calls its devices, `named` how much each chip adds to the number in a slice's
    name, `memory` the GiB of one device, and `shapes` the chips along each axis.
    """

    topology: str
    kind: str
    named: int
    memory: int
    shapes: tuple[str, ...]
    chip_config: str | None = None


_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
_SQUARES = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_GENERATIONS = {
    "v4": _Generation("v4", "TPU v4", 2, 32, _CUBES, "megacore"),
    "v5e": _Generation("v5e", "TPU v5 lite", 1, 16, _SQUARES),
    "v5p": _Generation("v5", "TPU v5", 2, 95, _CUBES, "megacore"),
    "v6e": _Generation("v6e", "TPU v6 lite", 1, 32, _SQUARES),
    "tpu7x": _Generation("tpu7x", "TPU7x", 2, 96, _CUBES),
}

# libtpu would ask the machine's metadata server, which only a TPU's host has, and lets only one
# process of a machine have its TPU.
_ALONE = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v4-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


def target_names() -> tuple[str, ...]:
    """The slices that there are: `v4-8` to `v4-1024`, and those of the other generations."""
    return tuple(_slices())


def _slices() -> dict[str, tuple[_Generation, str]]:
    return {
        f"{name}-{_chips(shape) * each.named}": (each, shape)
        for name, each in _GENERATIONS.items()
        for shape in each.shapes
    }


def _chips(shape: str) -> int:
    count = 1
    for length in shape.split("x"):
        count *= int(length)
    return count


def target(name: str) -> Target:
    """A slice of TPUs by its name in Google Cloud, such as `v4-64`; `2xv4-64` are two of them.

    Use it as `hm.mesh("data=32", devices=hm.target("v4-64").devices)`, to lower and compile a
    program there. Call it before JAX starts a backend, or with JAX_PLATFORMS=cpu.

    Raises:
        ConfigError: there is no such slice, or libtpu, which has the compiler, is not installed.
    """
    known = _slices()
    several = re.fullmatch(r"([2-9]|[1-9]\d{1,2})x(.+)", name, re.ASCII)
    count, one = (int(several[1]), several[2]) if several else (1, name)
    if one not in known:
        raise ConfigError(f"--target {shortened(name)}: unknown. Use {_in_short()}.")
    generation, shape = known[one]
    for variable, value in _ALONE.items():
        os.environ.setdefault(variable, value)
    # Imported late: it imports the compilers of all platforms.
    from jax.experimental import topologies

    given: dict[str, Any] = {}
    if generation.chip_config is not None:
        given["chip_config_name"] = generation.chip_config
    if shape == "2x4":  # a machine with eight chips; larger slices have four on each
        given["chips_per_host_bounds"] = (2, 4, 1)
    try:
        found = topologies.get_topology_desc(
            platform="tpu",
            topology_name=f"{generation.topology}:{shape}",
            num_slices=count,
            **given,
        )
    except RuntimeError as error:
        if "not installed" in str(error):
            raise ConfigError(
                f"--target {name}: the TPU's compiler is not installed (libtpu, for Linux on "
                "x86-64). Use pip install '.[tpu-plan]'."
            ) from error
        said = re.split(r"\n| For ", str(error))[0]
        raise ConfigError(f"--target {name}: this libtpu has no such slice: {said}") from error
    return Target(name, tuple(found.devices), generation.memory * _GIB)


def memory_limit(device: jax.Device) -> int | None:
    """Bytes that programs may have on a device; `None` if nothing is known.

    The device may be of another process, or the description of one that is not here.
    """
    try:
        stats = device.memory_stats()
    except jax.errors.JaxRuntimeError:
        kinds = {each.kind: each.memory * _GIB for each in _GENERATIONS.values()}
        return kinds.get(device.device_kind)
    return None if stats is None else stats.get("bytes_limit")


def _in_short() -> str:
    """The names, a range for each generation."""
    names = target_names()
    ranges = []
    for each in _GENERATIONS:
        mine = [name for name in names if name.startswith(f"{each}-")]
        ranges.append(f"{mine[0]} to {mine[-1]}")
    return f"{', '.join(ranges)}, or 2xv4-64 for two slices; list prints them all"
