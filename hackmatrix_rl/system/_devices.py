"""The device of a run, and a message if a better one is unused."""

import os
from collections.abc import Callable
from typing import Any

import jax

from hackmatrix_rl.errors import ConfigError

# Files that show the hardware, even if the installed JAX cannot use it.
_SIGNS = {
    "gpu": ("/dev/nvidia0", "/proc/driver/nvidia/version"),
    "tpu": ("/dev/accel0", "/dev/vfio/0"),
}
_EXTRAS = {"gpu": "cuda", "tpu": "tpu"}


def select_device(device: str) -> str:
    """Makes JAX compute on `cpu`, `gpu`, `tpu`, or `auto` for its own choice; returns the kind.

    Raises:
        ConfigError: JAX sees no such device here.
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
    # A device of this process: `found` names the devices of all processes.
    jax.config.update("jax_default_device", jax.local_devices(backend=found[0].platform)[0])
    return device


def cut_cpu(devices: int) -> None:
    """Makes the CPU count as several devices, unless JAX's own settings say how many it is.

    The devices share its cores. Call this before any device starts.
    """
    settings: Any = jax.config  # its attributes are made at run time
    in_flags = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if settings.jax_num_cpu_devices == -1 and not in_flags:
        jax.config.update("jax_num_cpu_devices", devices)


def accelerator_present(kind: str, exists: Callable[[str], bool] = os.path.exists) -> bool:
    """Whether the machine has a `gpu` or `tpu`, even if the installed JAX cannot use it."""
    return any(exists(sign) for sign in _SIGNS[kind])


def unseen_accelerator(backend: str, exists: Callable[[str], bool] = os.path.exists) -> str | None:
    """What to install if a backend of JAX cannot see a GPU or TPU of this machine."""
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
    """One line that names the chosen kind of device and why it is not the best that JAX sees."""
    if chosen != best:
        named = "as --device or --preset says"
        return f"Computing on the {chosen.upper()}, {named}; there is a {best.upper()} too"
    missing = {"tpu": [], "gpu": ["TPU"]}.get(chosen, ["TPU", "GPU"])
    if not missing:
        return "Computing on the TPU, the first choice"
    return f"Computing on the {chosen.upper()}: JAX sees no {' and no '.join(missing)} here"


def chosen_devices() -> list[jax.Device]:
    """This process's devices of the kind that JAX computes on."""
    settings: Any = jax.config  # its attributes are made at run time
    default = settings.jax_default_device
    devices: list[jax.Device] = jax.local_devices(
        backend=None if default is None else default.platform
    )
    return devices


def describe_device() -> str:
    """The devices in words: `cpu (1 x cpu)`."""
    devices = chosen_devices()
    return f"{devices[0].platform} ({len(devices)} x {devices[0].device_kind})"
