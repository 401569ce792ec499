"""The device of JAX, determinism, and the compilation cache.

Requirements for bitwise reproducible runs:

| on | requirement |
|---|---|
| CPU | none: the same program on the same machine gives the same bits |
| TPU | none: XLA's programs use no atomics and no autotuning |
| GPU | a flag that XLA reads at its start: no atomics, and no autotuning |

Random draws never depend on the sharding of arrays (`jax_threefry_partitionable`).

Source: OpenXLA, "Determinism (GPU)"; `xla_gpu_deterministic_ops` includes
`xla_gpu_exclude_nondeterministic_ops` and switches autotuning off.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from hackmatrix_rl._plugins import accelerator_present
from hackmatrix_rl.system._compatibility import backend_started
from hackmatrix_rl.system.errors import ConfigError

_EXTRAS = {"gpu": "cuda", "tpu": "tpu"}

_CONFIG: Any = jax.config  # its attributes are made at run time
GPU_FLAG = "--xla_gpu_deterministic_ops"
# JAX's default of one second would exclude most programs of a start except the update.
_MIN_SECONDS = 0.1


def select_device(device: str) -> str:
    """Sets JAX's default device to `cpu`, `gpu` or `tpu`; `auto` keeps it. Returns its platform."""
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
    # A device of this process: `found` has the devices of all processes.
    jax.config.update("jax_default_device", jax.local_devices(backend=found[0].platform)[0])
    return device


def cut_cpu(devices: int) -> None:
    """Splits the CPU into several devices, unless JAX's own settings give their number.

    The devices share the cores. Call this before a device starts.
    """
    in_flags = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if _CONFIG.jax_num_cpu_devices != -1 or in_flags:
        return
    if not backend_started():
        jax.config.update("jax_num_cpu_devices", devices)
    elif (started := jax.local_device_count("cpu")) != devices:
        raise ConfigError(
            f"--cpu-devices {devices}: JAX has started with {started} on the CPU in this process. "
            f"Set JAX_NUM_CPU_DEVICES={devices} before it starts, or use --cpu-devices none."
        )


def unseen_accelerator(
    backend: str, present: Callable[[str], bool] = accelerator_present
) -> str | None:
    """The extra to install if this machine has a GPU or TPU that JAX does not see, else `None`."""
    if backend != "cpu":
        return None
    for kind, extra in _EXTRAS.items():
        if present(kind):
            return (
                f"This machine has a {kind.upper()} that the installed JAX cannot see. Install "
                f"the {extra} extra to use it: pip install '.[{extra}]'"
            )
    return None


def why_device(chosen: str, best: str) -> str:
    """A line with the chosen kind of device, and the reason if it is not the best one."""
    if chosen != best:
        named = "as --device or --preset says"
        return f"Computing on the {chosen.upper()}, {named}; there is a {best.upper()} too"
    missing = {"tpu": [], "gpu": ["TPU"]}.get(chosen, ["TPU", "GPU"])
    if not missing:
        return "Computing on the TPU, the first choice"
    return f"Computing on the {chosen.upper()}: JAX sees no {' and no '.join(missing)} here"


def chosen_devices() -> list[jax.Device]:
    """The devices of this process on JAX's default platform."""
    default = _CONFIG.jax_default_device
    return list(jax.local_devices(backend=None if default is None else default.platform))


def describe_device() -> str:
    """The devices in words: `cpu (1 x cpu)`, `tpu (4 x TPU v4) in each of 8 processes`."""
    devices, processes = chosen_devices(), jax.process_count()
    each = f" in each of {processes} processes" if processes > 1 else ""
    return f"{devices[0].platform} ({len(devices)} x {devices[0].device_kind}){each}"


def make_deterministic() -> None:
    """Makes runs deterministic. Call it before JAX computes anything.

    It may be called again.
    """
    if _CONFIG.jax_default_prng_impl != "threefry2x32":
        raise ConfigError(
            f"--deterministic: random numbers of {_CONFIG.jax_default_prng_impl} may differ "
            "from run to run. Unset JAX_DEFAULT_PRNG_IMPL."
        )
    jax.config.update("jax_threefry_partitionable", True)
    flags = os.environ.get("XLA_FLAGS", "").split()
    # A flag without a value means true. The last of several flags applies.
    given = [each.partition("=")[2] or "true" for each in flags if each.split("=")[0] == GPU_FLAG]
    if given and given[-1].lower() not in ("true", "1"):
        raise ConfigError(
            f"--deterministic: XLA_FLAGS holds {GPU_FLAG}={given[-1]}. Remove it from XLA_FLAGS."
        )
    if given:
        return
    if backend_started() and jax.default_backend() in ("gpu", "cuda"):
        raise ConfigError(
            f"--deterministic: JAX has started on the GPU already, without {GPU_FLAG}=true. "
            f"Set XLA_FLAGS={GPU_FLAG}=true before Python starts, or call make_deterministic() "
            "before anything is computed."
        )
    os.environ["XLA_FLAGS"] = " ".join([*flags, f"{GPU_FLAG}=true"])


def cache_folder() -> Path:
    """The package's folder in the user's cache folder; it may not exist."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "hackmatrix_rl"


def enable_compilation_cache() -> Path | None:
    """Enables JAX's persistent compilation cache in the user's cache folder.

    Programs that compile in less than 0.1 seconds are not cached. `JAX_COMPILATION_CACHE_DIR` sets
    another folder; if empty, it disables the cache. The cached programs are executed, so only this
    user can write to a folder that is created here.

    Returns:
        The folder, or `None` without a cache.
    """
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_SECONDS)
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if named is not None:
        return Path(named) if named else None
    if _CONFIG.jax_compilation_cache_dir:
        return Path(_CONFIG.jax_compilation_cache_dir)
    folder = cache_folder() / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # training works without a writable home
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
