"""Compile targets: devices that are not on this machine, by their descriptions.

Sources: Google Cloud, "TPU versions" (names); JAX, `jax.experimental.topologies`; XLA,
`stream_executor/device_description.proto` and, for H100, H200 and A100,
`backends/gpu/target_config/specs`; for L4 and RTX 4090 NVIDIA, "CUDA C++ Programming Guide",
compute capabilities, and their data sheets.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jaxlib.version

from hackmatrix_rl._plugins import TPU_OF_NOBODY
from hackmatrix_rl.system._accelerators import ACCELERATORS
from hackmatrix_rl.system._devices import cut_cpu
from hackmatrix_rl.system.errors import ConfigError, shortened

CPU = "cpu"


@dataclass(frozen=True)
class Machines:
    """The machines of a target. Computed without its compiler.

    Attributes:
        name: one of `target_names()`, with a number as prefix if there are several: `2xv4-64`.
        kind: a generation of TPUs such as `v4`, a GPU such as `h100`, or `cpu`.
        slices: number of TPU slices; 1 for other devices.
        hosts: number of machines.
        per_host: chips, GPUs or CPUs per machine. JAX counts a chip of tpu7x as two devices.
        topology: chips along each axis of a TPU slice, such as `2x2x4`; empty for other devices.
    """

    name: str
    kind: str
    slices: int
    hosts: int
    per_host: int
    topology: str = ""

    @property
    def gpus(self) -> bool:
        """Whether these machines have GPUs."""
        return self.kind in GPUS

    @property
    def one(self) -> str:
        """The name without its prefix."""
        return self.name.partition("x")[2] if self.name[0].isdigit() else self.name


@dataclass(frozen=True)
class Target:
    """Devices to compile for.

    Attributes:
        name: one of `target_names()`, with a number as prefix if there are several slices, GPUs or
            machines: `2xv4-64`, `8xh100`, `2xcpu`.
        devices: descriptions of the devices, in the order of a mesh.
        memory: memory of one device in bytes; `None` if unknown.
    """

    name: str
    devices: tuple[jax.Device, ...]
    memory: int | None

    @property
    def platform(self) -> str:
        """The platform of the devices, as in JAX."""
        return self.devices[0].platform

    @property
    def hosts(self) -> int:
        """Number of machines."""
        return machines(self.name).hosts


class _Generation(NamedTuple):
    """The slices of one generation of TPUs."""

    topology: str
    kind: str  #: `device_kind` of its devices in JAX.
    named: int  #: What each chip adds to the number in the name of a slice.
    shapes: tuple[str, ...]  #: Chips along each axis.
    chip_config: str | None = None


_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
_EIGHT_CHIPS = "2x4"  # a single machine with eight chips; larger slices have four per machine
_SQUARES = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_GENERATIONS = {
    "v4": _Generation("v4", "TPU v4", 2, _CUBES, "megacore"),
    "v5e": _Generation("v5e", "TPU v5 lite", 1, _SQUARES),
    "v5p": _Generation("v5", "TPU v5", 2, _CUBES, "megacore"),
    "v6e": _Generation("v6e", "TPU v6 lite", 1, _SQUARES),
    "tpu7x": _Generation("tpu7x", "TPU7x", 2, _CUBES),
}


class _Architecture(NamedTuple):
    """What the multiprocessors of an architecture have."""

    capability: tuple[int, int]
    fpus: int  #: Units for float32.
    threads: int  #: Threads at once.
    shared: int  #: Bytes of shared memory.


class _Gpu(NamedTuple):
    """A GPU, in addition to `ACCELERATORS`."""

    kind: str  #: `device_kind` of its devices in JAX.
    architecture: _Architecture
    bandwidth: int  #: Bytes of memory a second.
    cache: int  #: Bytes of the second level.
    clock: float  #: GHz.


_AMPERE = _Architecture((8, 0), 64, 2048, 167_936)
_ADA = _Architecture((8, 9), 128, 1536, 102_400)
_HOPPER = _Architecture((9, 0), 128, 2048, 233_472)
GPUS: Mapping[str, _Gpu] = {
    "h100": _Gpu("NVIDIA H100 80GB HBM3", _HOPPER, 3_352_320_000_000, 50 * 2**20, 1.98),
    "h200": _Gpu("NVIDIA H200", _HOPPER, 4_800_000_000_000, 50 * 2**20, 1.98),
    "a100": _Gpu("NVIDIA A100-SXM4-80GB", _AMPERE, 2_039_040_000_000, 40 * 2**20, 1.41),
    "l4": _Gpu("NVIDIA L4", _ADA, 300_000_000_000, 48 * 2**20, 2.04),
    "rtx4090": _Gpu("NVIDIA GeForce RTX 4090", _ADA, 1_008_000_000_000, 72 * 2**20, 2.52),
}
"""The GPUs that `target` knows, by name."""

# XLA's `GpuTargetConfigProto`.
_DESCRIPTION = """
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {shared}
  threads_per_core_limit: {threads}
  core_count: {multiprocessors}
  fpus_per_core: {fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth}
  l2_cache_size: {cache}
  clock_rate_ghz: {clock}
  device_memory_size: {memory}
  shared_memory_per_block_optin: {most_shared}
  cuda_compute_capability {{ major: {capability[0]} minor: {capability[1]} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 1 }}
device_description_str: "{kind}"
"""
_RESERVED = 1024  # bytes of shared memory that a block cannot use
_GPUS_OF_A_HOST = 8

# The plugin only compiles, so it needs neither a driver nor CUDA's libraries.
_WITHOUT_CUDA = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}

# Otherwise libtpu queries the metadata server, which exists only on TPU hosts, and allows only one
# process per machine.
_ALONE = {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_SKIP_MDS_QUERY": "1", **TPU_OF_NOBODY}


def target_names() -> tuple[str, ...]:
    """All names for `target`: slices such as `v4-8` to `v4-1024`, GPUs such as `h100`, `cpu`."""
    return (*_slices(), *GPUS, CPU)


def _slices() -> dict[str, tuple[_Generation, str]]:
    return {
        f"{name}-{_chips(shape) * each.named}": (each, shape)
        for name, each in _GENERATIONS.items()
        for shape in each.shapes
    }


def _chips(shape: str) -> int:
    return math.prod(map(int, shape.split("x")))


def machines(name: str) -> Machines:
    """The machines of a target.

    Raises:
        ConfigError: there are no such devices.
    """
    several = re.fullmatch(r"([2-9]|[1-9]\d{1,2})x(.+)", name, re.ASCII)
    count, one = (int(several[1]), several[2]) if several else (1, name)
    if one == CPU:
        return Machines(name, CPU, 1, count, 1)
    if one in GPUS and count <= _GPUS_OF_A_HOST:
        return Machines(name, one, 1, 1, count)
    if one in GPUS:
        if count % _GPUS_OF_A_HOST:
            raise ConfigError(
                f"--target {name}: a machine has up to {_GPUS_OF_A_HOST} GPUs. Use a multiple of "
                f"{_GPUS_OF_A_HOST}, such as {count // _GPUS_OF_A_HOST * _GPUS_OF_A_HOST}x{one}."
            )
        return Machines(name, one, 1, count // _GPUS_OF_A_HOST, _GPUS_OF_A_HOST)
    if one not in _slices():
        raise ConfigError(f"--target {shortened(name)}: unknown. Use {_in_short()}.")
    shape = _slices()[one][1]
    # A machine has four chips, unless the slice is a single machine.
    chips, most = _chips(shape), 8 if shape == _EIGHT_CHIPS else 4
    per_host = min(chips, most)
    return Machines(name, one.partition("-")[0], count, count * chips // per_host, per_host, shape)


def target(name: str) -> Target:
    """TPUs, GPUs or CPUs to compile for, by name.

    `v4-64` is a TPU slice by its name in Google Cloud, and `2xv4-64` is two of them. `h100` is an
    NVIDIA H100, `8xh100` a machine with eight, and `16xh100` two such machines; `h200`, `a100`
    (80 GB), `l4` and `rtx4090` likewise. `2xcpu` is two machines with CPUs like this one's.

    Use it as `hm.mesh("data=32", devices=hm.target("v4-64").devices)` to lower and compile a
    program for these devices. Call it before JAX starts a backend, or with JAX_PLATFORMS=cpu.

    Raises:
        ConfigError: the name is unknown, or the compiler is not installed: libtpu for TPUs, JAX's
            CUDA plugin for GPUs.
    """
    there = machines(name)
    if there.kind == CPU:
        return _cpus(there)
    return _gpus(there) if there.gpus else _tpus(there)


def _cpus(there: Machines) -> Target:
    cut_cpu(there.hosts)
    devices = tuple(jax.devices("cpu"))
    if len(devices) < there.hosts:
        raise ConfigError(
            f"--target {there.name}: the CPU counts as {len(devices)} devices here. Leave "
            f"XLA_FLAGS and JAX_NUM_CPU_DEVICES unset, or set JAX_NUM_CPU_DEVICES={there.hosts}."
        )
    return Target(there.name, devices[: there.hosts], None)


def _tpus(there: Machines) -> Target:
    name = there.name
    generation, shape = _slices()[there.one]
    given: dict[str, Any] = {"topology_name": f"{generation.topology}:{shape}"}
    if generation.chip_config is not None:
        given["chip_config_name"] = generation.chip_config
    if shape == _EIGHT_CHIPS:
        given["chips_per_host_bounds"] = (2, 4, 1)
    try:
        devices = _described("tpu", _ALONE, num_slices=there.slices, **given)
    except RuntimeError as error:
        if "not installed" in str(error):
            raise ConfigError(
                f"--target {name}: the TPU's compiler is not installed (libtpu, for Linux on "
                "x86-64). Use pip install '.[tpu-plan]'."
            ) from error
        said = re.split(r"\n| For ", str(error))[0]
        raise ConfigError(f"--target {name}: this libtpu has no such slice: {said}") from error
    return Target(name, devices, ACCELERATORS[generation.kind].memory)


def _gpus(there: Machines) -> Target:
    name, shape = there.name, f"1x{there.hosts}x{there.per_host}"
    gpu = GPUS[there.kind]
    known = ACCELERATORS[gpu.kind]
    most_shared = gpu.architecture.shared - _RESERVED
    given = gpu._asdict() | gpu.architecture._asdict() | known._asdict()
    description = _DESCRIPTION.format(**given, most_shared=most_shared)
    try:
        devices = _described(
            "cuda",
            _WITHOUT_CUDA,
            topology_name=there.kind,
            target_config=description,
            topology=shape,
        )
    except NotImplementedError as error:
        plugin = f"jax-cuda13-plugin=={jaxlib.version.__version__}"
        raise ConfigError(
            f"--target {name}: the GPU's compiler is not installed ({plugin}, for Linux). Use pip "
            f"install '.[gpu-plan]' '{plugin}'."
        ) from error
    return Target(name, devices, known.memory)


def _described(
    platform: str, variables: Mapping[str, str], **description: Any
) -> tuple[jax.Device, ...]:
    """The devices of a description. The compiler reads the environment variables on import."""
    for variable, value in variables.items():
        os.environ.setdefault(variable, value)
    # A late import, because it imports the compilers of all platforms.
    from jax.experimental import topologies

    return tuple(topologies.get_topology_desc(platform=platform, **description).devices)


def is_here(device: jax.Device) -> bool:
    """Whether a device, of this process or another, exists and is not only a description."""
    return bool(device.client.runtime_type != "compile_only_runtime")


def _in_short() -> str:
    """The names of targets, with a range for each generation."""
    names = target_names()
    ranges = []
    for each in _GENERATIONS:
        mine = [name for name in names if name.startswith(f"{each}-")]
        ranges.append(f"{mine[0]} to {mine[-1]}")
    each = ", ".join((*ranges, *GPUS))
    return f"{each} or {CPU}, or several (2xv4-64, 8xh100); list prints them all"
