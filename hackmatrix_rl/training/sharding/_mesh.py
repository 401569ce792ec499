"""Meshes: the devices that train together.

A mesh has two axes. Environments, rollouts and minibatches are cut over both: no device repeats
the work of another. Parameters and the optimizer's state are the same on all devices along
`data`, and cut along `fsdp` (fully sharded data parallelism).

Source: Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion
parameter models".
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, PartitionSpec

from hackmatrix_rl.errors import ArgumentError
from hackmatrix_rl.training.sharding._divisors import divisors

DATA, FSDP = "data", "fsdp"
AXES = (DATA, FSDP)
AUTO = "auto"

# Specs for arrays with an axis of environments.
BY_ENVIRONMENT = PartitionSpec(AXES)
BY_STEP_AND_ENVIRONMENT = PartitionSpec(None, AXES)
REPLICATED = PartitionSpec()

_SPECS = {None: REPLICATED, 0: BY_ENVIRONMENT, 1: BY_STEP_AND_ENVIRONMENT}


def specs_of(axes: Mapping[str, int | None]) -> dict[str, PartitionSpec]:
    """The partition specs of a module's fields, by their axes of environments.

    Args:
        axes: by the name of a field (see `Rollout.environment_axes`).
    """
    return {name: _SPECS[axis] for name, axis in axes.items()}


def parse_mesh(text: str) -> dict[str, int] | None:
    """The length of each axis in a text such as `data=4,fsdp=2`.

    Args:
        text: `auto`, or axes with their lengths; a missing axis has length 1.

    Returns:
        Both axes, or `None` for `auto`, which depends on the devices.

    Raises:
        ValueError: the text is not a mesh.
    """
    if text.strip() == AUTO:
        return None
    lengths: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if equals and name not in AXES:
            near = difflib.get_close_matches(name, AXES, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            shown = repr(name).replace("{", "{{").replace("}", "}}")
            raise ArgumentError(f"{{mesh}}: no axis {shown}. Use data and fsdp.{hint}", mesh=text)
        # `isdecimal` alone would accept digits of any script.
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
    return {name: lengths.get(name, 1) for name in AXES}


def mesh(text: str = AUTO, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """The mesh of a text.

    Args:
        text: `auto` for all devices along `data`, or axes with their lengths.
        devices: the available devices, used in this order; by default all of the kind that JAX
            computes on.

    Returns:
        A mesh with the axes `data` and `fsdp`.

    Raises:
        ValueError: there are too few devices, or the text is not a mesh.
    """
    if devices is None:
        devices = _all_devices()
    lengths = parse_mesh(text) or {DATA: len(devices), FSDP: 1}
    wanted = lengths[DATA] * lengths[FSDP]
    if wanted > len(devices):
        kind = devices[0].platform
        more = (
            " To try a mesh without further hardware, set "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={wanted} before the start."
            if kind == "cpu"
            else ""
        )
        raise ArgumentError(
            f"{{mesh}}: needs {wanted} devices, but {_there_are(len(devices), kind)}. Use "
            f"data={len(devices)}, or auto.{more}",
            mesh=text,
        )
    return jax.make_mesh(
        tuple(lengths.values()),
        tuple(lengths),
        axis_types=(AxisType.Auto,) * len(AXES),
        devices=devices[:wanted],
    )


def single_device() -> Mesh:
    """A mesh of JAX's default device."""
    return mesh("data=1")


def check_axes(mesh: Mesh) -> None:
    """Raises a ValueError unless a mesh has the axes `data` and `fsdp`."""
    if tuple(mesh.axis_names) != AXES:
        raise ValueError(
            f"mesh: its axes are {', '.join(map(str, mesh.axis_names))}, not data and fsdp. Use "
            'hm.mesh("data=4,fsdp=2")'
        )


def describe_mesh(lengths: Mapping[str, int]) -> str:
    """The axes as text: `data=4,fsdp=2`; an `fsdp` of 1 is left out."""
    return ",".join(
        f"{name}={length}" for name, length in lengths.items() if length > 1 or name == DATA
    )


def check_split(
    lengths: Mapping[str, int], *, num_envs: int, num_minibatches: int, grad_accum: int = 1
) -> None:
    """Raises unless environments, minibatches and their parts can be cut over a mesh.

    Other checks refuse numbers that do not divide even without a mesh.

    Args:
        lengths: lengths of the mesh's axes.
        num_envs: number of environments.
        num_minibatches: minibatches in an epoch.
        grad_accum: parts of a minibatch.

    Raises:
        ArgumentError: they do not divide; the message says what would work.
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


def most_devices(environments: int, devices: int) -> int:
    """The largest number of devices, up to `devices`, that divides the environments."""
    if environments % devices == 0:
        return devices
    fitting = [n for n in divisors(environments) if n < devices]
    # Prefer a number that also divides the number of devices.
    return max([n for n in fitting if n > 1 and devices % n == 0] or fitting)


def _all_devices() -> Sequence[jax.Device]:
    settings: Any = jax.config  # its attributes are made at run time
    default = settings.jax_default_device
    devices: Sequence[jax.Device] = jax.devices(None if default is None else default.platform)
    return devices


def _there_are(count: int, kind: str) -> str:
    return f"there is 1 {kind} device" if count == 1 else f"there are {count} {kind} devices"
