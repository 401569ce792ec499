"""Which device a run computes on, and what to say where a better one goes unused."""

import os
from collections.abc import Callable
from typing import Any

import jax

from hackmatrix_rl.errors import (
    ConfigError,
)

# What shows that hardware is there, whatever the installed JAX makes of it.
_SIGNS = {
    "gpu": ("/dev/nvidia0", "/proc/driver/nvidia/version"),
    "tpu": ("/dev/accel0", "/dev/vfio/0"),
}
_EXTRAS = {"gpu": "cuda", "tpu": "tpu"}


def select_device(device: str) -> str:
    """Makes a kind of device the one that computations run on.

    Args:
        device: `cpu`, `gpu`, `tpu`, or `auto` for JAX's own choice.

    Returns:
        The kind that was chosen: `cpu`, `gpu` or `tpu`.

    Raises:
        ConfigError: if JAX sees no such device here.
    """
    if device == "auto":
        return jax.default_backend()
    try:
        found = jax.devices(device)
    except RuntimeError as error:
        advice = unseen_accelerator(jax.default_backend()) or "Use --preset cpu, or auto."
        raise ConfigError(
            f"--device {device} (or --preset {device}): JAX sees no {device.upper()} here, only "
            f"{jax.default_backend()}. {advice}"
        ) from error
    # One of this process's own: with several, `found` names those of all of them.
    jax.config.update("jax_default_device", jax.local_devices(backend=found[0].platform)[0])
    return device


def cut_cpu(devices: int) -> None:
    """Makes the CPU count as several devices, if nobody else has said how many it is.

    They share its cores. Before any device is started.

    Args:
        devices: how many.
    """
    settings: Any = jax.config  # its attributes are made at run time
    in_flags = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if settings.jax_num_cpu_devices == -1 and not in_flags:
        jax.config.update("jax_num_cpu_devices", devices)


def accelerator_present(kind: str, exists: Callable[[str], bool] = os.path.exists) -> bool:
    """Whether hardware of a kind is there, whatever the installed JAX makes of it.

    Args:
        kind: `gpu` or `tpu`.
        exists: tells whether a path exists; tests hand in their own.
    """
    return any(exists(sign) for sign in _SIGNS[kind])


def unseen_accelerator(backend: str, exists: Callable[[str], bool] = os.path.exists) -> str | None:
    """What to install, where a GPU or TPU is present that the installed JAX cannot see.

    Args:
        backend: what JAX computes on.
        exists: tells whether a path exists; tests hand in their own.
    """
    if backend != "cpu":
        return None
    for kind in _SIGNS:
        if accelerator_present(kind, exists):
            return (
                f"This machine has a {kind.upper()} that the installed JAX cannot see. Install "
                f"the {_EXTRAS[kind]} extra to use it: pip install '.[{_EXTRAS[kind]}]'"
            )
    return None


def why_device(chosen: str, best: str) -> str:
    """One line: what is computed on, and why that.

    Args:
        chosen: `tpu`, `gpu` or `cpu`.
        best: the first of these that JAX sees here.
    """
    if chosen != best:
        named = "as --device or --preset says"
        return f"Computing on the {chosen.upper()}, {named}; there is a {best.upper()} too"
    missing = {"tpu": [], "gpu": ["TPU"]}.get(chosen, ["TPU", "GPU"])
    if not missing:
        return "Computing on the TPU, the first choice"
    return f"Computing on the {chosen.upper()}: JAX sees no {' and no '.join(missing)} here"


def chosen_devices() -> list[jax.Device]:
    """The devices of the kind that computations run on."""
    settings: Any = jax.config  # its attributes are made at run time
    default = settings.jax_default_device
    devices: list[jax.Device] = jax.local_devices(
        backend=None if default is None else default.platform
    )
    return devices


def describe_device() -> str:
    """The devices that are there, in words: `cpu (1 x cpu)`."""
    devices = chosen_devices()
    return f"{devices[0].platform} ({len(devices)} x {devices[0].device_kind})"
