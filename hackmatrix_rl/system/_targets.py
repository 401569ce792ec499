"""Slices of TPUs that are not here: their compiler needs only a description of them.

Sources: Google Cloud, "TPU versions" (names and memory); JAX, `jax.experimental.topologies`.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax

from hackmatrix_rl.errors import ConfigError, shortened

_GIB = 2**30


@dataclass(frozen=True)
class Target:
    """A slice to compile for; nothing runs on its devices.

    Attributes:
        name: one of `target_names()`.
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

    `named` is how much each chip adds to the number in a slice's name, `memory` the GiB of one
    device, and `shapes` the chips along each axis.
    """

    topology: str
    named: int
    memory: int
    shapes: tuple[str, ...]
    chip_config: str | None = None


_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
_SQUARES = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_GENERATIONS = {
    "v4": _Generation("v4", 2, 32, _CUBES, "megacore"),
    "v5e": _Generation("v5e", 1, 16, _SQUARES),
    "v5p": _Generation("v5", 2, 95, _CUBES, "megacore"),
    "v6e": _Generation("v6e", 1, 32, _SQUARES),
    "tpu7x": _Generation("tpu7x", 2, 96, _CUBES),
}

# libtpu would ask the machine's metadata server, which only a TPU's host has.
_ALONE = {
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
    """A slice of TPUs by its name in Google Cloud, such as `v4-64`.

    Use it as `hm.mesh("data=32", devices=hm.target("v4-64").devices)`, to lower and compile a
    program there. Call it before JAX starts a backend, or with JAX_PLATFORMS=cpu.

    Raises:
        ConfigError: there is no such slice, or libtpu, which has the compiler, is not installed.
    """
    slices = _slices()
    if name not in slices:
        raise ConfigError(f"--target {shortened(name)}: unknown. Use {_in_short()}.")
    generation, shape = slices[name]
    for variable, value in _ALONE.items():
        os.environ.setdefault(variable, value)
    # Imported late: it imports the compilers of all platforms.
    from jax.experimental import topologies

    given = {} if generation.chip_config is None else {"chip_config_name": generation.chip_config}
    try:
        found = topologies.get_topology_desc(
            platform="tpu", topology_name=f"{generation.topology}:{shape}", **given
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


def _in_short() -> str:
    """The names, a range for each generation."""
    names = target_names()
    ranges = []
    for each in _GENERATIONS:
        mine = [name for name in names if name.startswith(f"{each}-")]
        ranges.append(f"{mine[0]} to {mine[-1]}")
    return f"{', '.join(ranges)}; list prints them all"
