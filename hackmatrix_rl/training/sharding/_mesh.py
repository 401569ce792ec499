"""Meshes of devices.

A mesh has the axes `data` and `fsdp`, and for a population a leading axis `population`.
Environments, rollouts and minibatches are sharded over `data` and `fsdp` together. Parameters and
the optimizer state are replicated along `data` and sharded along `fsdp` (fully sharded data
parallelism).

Source: Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion
parameter models".
"""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

# `jax.make_mesh` neither splits physical axes nor knows slices.
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, PartitionSpec

from hackmatrix_rl.system.errors import ArgumentError, instance


def divisors(number: int) -> list[int]:
    """All divisors of a number in ascending order, in `O(sqrt(number))`."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


DATA, FSDP = "data", "fsdp"
AXES = (DATA, FSDP)
"""The axes over which the work of one training is sharded."""
POPULATION = "population"
"""The leading axis, over which the members of a population are sharded."""
AUTO = "auto"

# Specs for arrays with an axis of environments.
BY_ENVIRONMENT = PartitionSpec(AXES)
BY_STEP_AND_ENVIRONMENT = PartitionSpec(None, AXES)
REPLICATED = PartitionSpec()

_SPECS = {None: REPLICATED, 0: BY_ENVIRONMENT, 1: BY_STEP_AND_ENVIRONMENT}


def specs_of(axes: Mapping[str, int | None]) -> dict[str, PartitionSpec]:
    """The partition specs of a module's fields, by their axes of environments."""
    return {name: _SPECS[axis] for name, axis in axes.items()}


def parse_mesh(text: str) -> dict[str, int] | None:
    """The length of each axis in a text such as `data=4,fsdp=2`; a missing axis has length 1.

    The axis `population` is included only if the text has it. `None` for `auto`, which depends on
    the devices.
    """
    if text.strip() == AUTO:
        return None
    lengths: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if equals and name not in (POPULATION, *AXES):
            near = difflib.get_close_matches(name, (POPULATION, *AXES), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            shown = repr(name).replace("{", "{{").replace("}", "}}")
            raise ArgumentError(
                f"{{mesh}}: no axis {shown}. Use data, fsdp and population.{hint}", mesh=text
            )
        # `isdecimal` alone accepts digits of any script.
        plain = number.isascii() and number.isdecimal() and len(number) < 20
        if not (equals and plain and int(number) >= 1):
            raise ArgumentError(
                "{mesh}: not understood. Use auto, data=8, or data=4,fsdp=2 (whole numbers of "
                "devices).",
                mesh=text,
            )
        if name in lengths:
            raise ArgumentError(f"{{mesh}}: {name} is given twice. Use it once.", mesh=text)
        lengths[name] = int(number)
    axes = (POPULATION, *AXES) if POPULATION in lengths else AXES
    return {name: lengths.get(name, 1) for name in axes}


def mesh(text: str = AUTO, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh with the axes `data` and `fsdp`, and optionally `population`.

    Args:
        text: `auto` for all devices along `data`, or axes with their lengths. `population=4` shards
            the members of a `Population`.
        devices: the available devices, used in this order; by default all devices of JAX's default
            platform.

    Raises:
        ValueError: there are too few devices, or the text is not a mesh.
    """
    if devices is None:
        settings: Any = jax.config  # its attributes are made at run time
        default = settings.jax_default_device
        devices = jax.devices(None if default is None else default.platform)
    lengths = parse_mesh(text) or {DATA: len(devices), FSDP: 1}
    wanted = math.prod(lengths.values())
    if wanted > len(devices):
        kind, count = devices[0].platform, len(devices)
        available = f"is 1 {kind} device" if count == 1 else f"are {count} {kind} devices"
        more = (
            " To try a mesh without further hardware, set "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={wanted} before the start."
            if kind == "cpu"
            else ""
        )
        raise ArgumentError(
            f"{{mesh}}: needs {wanted} devices, but there {available}. Use data={count}, or "
            f"auto.{more}",
            mesh=text,
        )
    placed = _placed(lengths, devices[:wanted], text)
    return Mesh(placed, tuple(lengths), axis_types=(AxisType.Auto,) * len(lengths))


def _placed(lengths: Mapping[str, int], devices: Sequence[jax.Device], text: str) -> np.ndarray:
    """The devices in the shape of a mesh, which follows the topology of a TPU.

    The network between slices is slow, so slices are along `data`, which communicates least.
    """
    slices = slices_of(devices)
    # Members do not communicate, so their axis counts as `data`.
    data, fsdp = lengths.get(POPULATION, 1) * lengths[DATA], lengths[FSDP]
    if data % slices:
        raise ArgumentError(
            f"{{mesh}}: there are {slices} slices, and only data can span slices. Use a multiple "
            f"of {slices} for data.",
            mesh=text,
        )
    try:
        if slices == 1:
            placed = mesh_utils.create_device_mesh(
                (data, fsdp), devices, allow_split_physical_axes=True
            )
        else:
            placed = mesh_utils.create_hybrid_device_mesh(
                (data // slices, fsdp), (slices, 1), devices, allow_split_physical_axes=True
            )
    except (AssertionError, ValueError) as error:  # the devices are not a block of the slice
        raise ArgumentError(
            f"{{mesh}}: no {len(devices)} of these TPUs form a block of the network between them. "
            "Use auto, or half or a quarter of the devices.",
            mesh=text,
        ) from error
    return placed.reshape(tuple(lengths.values()))


def devices_of_one(mesh: Mesh | Mapping[str, int]) -> int:
    """The number of devices of a mesh, or of its lengths, that share the work of one training."""
    lengths = mesh.shape if isinstance(mesh, Mesh) else mesh
    return math.prod(lengths.get(name, 1) for name in AXES)


def slices_of(devices: Iterable[jax.Device]) -> int:
    """The number of TPU slices of the devices; 1 for other platforms."""
    # GPUs have the attribute, too, but there it numbers hosts with a fast interconnect.
    return len({getattr(each, "slice_index", 0) for each in devices if each.platform == "tpu"}) or 1


def mesh_of(given: Mesh | str | None) -> Mesh:
    """The mesh of an argument: a mesh, a text, or `None` for one device."""
    made = mesh(given) if isinstance(given, str) else given
    made = single_device() if made is None else made
    instance("mesh", made, Mesh, 'hm.mesh("data=2")')
    check_axes(made)
    return made


def single_device() -> Mesh:
    """A mesh of JAX's default device."""
    return mesh("data=1")


def check_axes(mesh: Mesh) -> None:
    """Raises a ValueError unless a mesh has the axes `data` and `fsdp`."""
    if tuple(mesh.axis_names) not in (AXES, (POPULATION, *AXES)):
        raise ValueError(
            f"mesh: its axes are {', '.join(map(str, mesh.axis_names))}, not data and fsdp. Use "
            'hm.mesh("data=4,fsdp=2")'
        )


def describe_mesh(lengths: Mapping[str, int]) -> str:
    """The axes as text, `data=4,fsdp=2`; axes of length 1 other than `data` are left out."""
    return ",".join(f"{name}={n}" for name, n in lengths.items() if n > 1 or name == DATA)


def check_split(
    lengths: Mapping[str, int], *, num_envs: int, num_minibatches: int, grad_accum: int = 1
) -> None:
    """Raises an ArgumentError unless environments, minibatches and their parts divide over a mesh.

    Numbers that do not divide without a mesh are left to other checks. `lengths` are the lengths of
    the mesh's axes.
    """
    devices = lengths[DATA] * lengths[FSDP]
    at_once, left = divmod(num_envs, num_minibatches * grad_accum)
    if num_envs % devices == 0 and (left or at_once % devices == 0):
        return
    over = f"{devices} devices ({{mesh}})"
    given = {"num_envs": num_envs, "mesh": describe_mesh(lengths), "grad_accum": grad_accum}
    whole = devices * num_minibatches * grad_accum
    counts = sorted({num_envs // whole * whole, -(-num_envs // whole) * whole} - {0})
    use = " or ".join(map(str, counts))
    if not left:
        use += f", or {{mesh:only}} {DATA}={most_devices(at_once, devices)}"
    if num_envs < devices:
        trouble = f"is less than one environment for each of {over}. Use {use}."
    elif num_envs % devices:
        trouble = f"does not divide over {over}. Use {use}."
    else:
        parts = " and {grad_accum}" if grad_accum > 1 else ""
        trouble = (
            f"in {num_minibatches} minibatches{parts} are {at_once} at a time, which do not divide "
            f"over {over}. Use fewer minibatches{' or parts' if parts else ''}, or "
            f"{{num_envs:only}} {use}."
        )
    raise ArgumentError(f"{{num_envs}} {trouble}", **given)


def neighbours(given: int, possible: Sequence[int]) -> list[int]:
    """The nearest possible numbers below and above a given one; one or none at an end."""
    below = [each for each in possible if each < given]
    above = [each for each in possible if each > given]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def most_devices(environments: int, devices: int) -> int:
    """The largest number of devices, up to `devices`, that divides the environments."""
    if environments % devices == 0:
        return devices
    fitting = [n for n in divisors(environments) if n < devices]
    # Prefer a divisor of the number of devices.
    return max([n for n in fitting if n > 1 and devices % n == 0] or fitting)


def on_each_device(
    mesh: Mesh,
    function: Callable[..., Any],
    modules: tuple[Any, ...],
    given: Any,
    *,
    cut: Any = REPLICATED,
    takes: Any = None,
    returns: Any = BY_ENVIRONMENT,
) -> Any:
    """Calls a function on each device (`jax.shard_map`), with modules as arguments.

    Args:
        mesh: the devices.
        function: a function of the modules, and of a device's shard of `given`.
        modules: pytrees, which may have leaves that are not arrays.
        given: a pytree of arrays that are sharded over the devices.
        cut: specs of the arrays of the modules; by default replicated.
        takes: specs of `given`; `None`: each array along its first axis, scalars replicated.
        returns: specs of the results; by default along their first axes.
    """
    if takes is None:
        takes = jax.tree.map(lambda leaf: BY_ENVIRONMENT if leaf.ndim else REPLICATED, given)
    arrays, code = eqx.partition(modules, eqx.is_array)

    def on_one(arrays: Any, given: Any) -> Any:
        return function(*eqx.combine(arrays, code), given)

    mapped = jax.shard_map(
        on_one,
        mesh=mesh,
        in_specs=(cut, takes),
        out_specs=returns,
        check_vma=False,  # the specs are the source of truth
    )
    return mapped(arrays, given)


@dataclass(frozen=True)
class Blocks:
    """Blocks of environments, each of which gives equally many samples to a batch.

    `owners` and `batch_name` are the names of `envs` and `batch` in messages, such as `num_envs`.
    """

    owners: str
    envs: int
    batch_name: str
    batch: int

    def check(self, *, environments: str, samples: str, devices: int = 1) -> None:
        """Raises an ArgumentError unless one number divides the other.

        `environments` and `samples` are their names in the message; its advice is for `devices`.
        """
        small, large = sorted((self.envs, self.batch))
        if large % small:
            raise ArgumentError(
                f"{{{self.batch_name}}} and {{{self.owners}}} do not fit: one must divide the "
                f"other, so that the {environments} give equally many {samples}; use "
                f"{self._near(devices)}",
                **{self.batch_name: self.batch, self.owners: self.envs},
            )

    @property
    def number(self) -> int:
        """Number of blocks."""
        return min(self.envs, self.batch)

    @property
    def of_each(self) -> int:
        """Samples of a batch from each block."""
        return self.batch // self.number

    def check_mesh(self, mesh: Mesh, *, grad_accum: int, samples: str) -> None:
        """Raises an ArgumentError unless the blocks and the parts of a batch divide over a mesh."""
        devices = devices_of_one(mesh)
        if self.number % devices:
            name = self.owners if self.number == self.envs else self.batch_name
            sizes = {name: self.number, self.owners: self.envs, self.batch_name: self.batch}
            raise ArgumentError(
                f"{{{name}}} does not divide over the {devices} devices of the mesh; use "
                f"{self._near(devices)}, or fewer devices",
                **sizes,
            )
        on_one = self.batch // devices
        if on_one % grad_accum:
            fit = " or ".join(", ".join(map(str, divisors(on_one))).rsplit(", ", 1))
            raise ArgumentError(
                f"{{grad_accum}} does not divide the {on_one} {samples} that each device has of "
                f"{{{self.batch_name}}}; use {{grad_accum:={fit}}}",
                **{"grad_accum": grad_accum, self.batch_name: self.batch},
            )

    def _near(self, devices: int) -> str:
        """Advice for an `ArgumentError`: near numbers that fit each other and the devices."""
        if self.owners == self.batch_name:
            below = self.batch // devices * devices
            near = [size for size in (below, below + devices) if size]
            return " or ".join(f"{{{self.owners}:={size}}}" for size in near)
        envs = -(-self.envs // devices) * devices
        batch = self.batch // envs * envs
        if not batch:
            sizes = range(devices, self.batch + 1, devices)
            batch = max((size for size in sizes if envs % size == 0), default=devices)
        named = {self.owners: (envs, self.envs), self.batch_name: (batch, self.batch)}
        return " and ".join(
            f"{{{name}:={new}}}" for name, (new, old) in named.items() if new != old
        )
