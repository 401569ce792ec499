"""How JAX computes here: its device, bitwise repeatability, the cache of compiled programs.

What a run needs to repeat bit for bit:

| on | requirement |
|---|---|
| CPU | nothing: the same program on the same machine gives the same bits |
| TPU | nothing: XLA's programs for it use no atomics and are not tuned by timing |
| GPU | a flag that XLA reads at its start: no atomics, and no choice of kernels by timing |

Random draws never depend on how arrays are cut over devices (`jax_threefry_partitionable`).

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
# JAX's own limit of a second would leave out most programs of a start except the update.
_MIN_SECONDS = 0.1


def select_device(device: str) -> str:
    """Makes JAX compute on `cpu`, `gpu`, `tpu`, or `auto` for its own choice; returns the kind."""
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
    """What to install if a backend of JAX cannot see a GPU or TPU of this machine."""
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
    default = _CONFIG.jax_default_device
    return list(jax.local_devices(backend=None if default is None else default.platform))


def describe_device() -> str:
    """The devices in words: `cpu (1 x cpu)`, `tpu (4 x TPU v4) in each of 8 processes`."""
    devices, processes = chosen_devices(), jax.process_count()
    each = f" in each of {processes} processes" if processes > 1 else ""
    return f"{devices[0].platform} ({len(devices)} x {devices[0].device_kind}){each}"


def make_deterministic() -> None:
    """Makes runs repeatable. Call it before JAX computes anything.

    A second call checks the settings again.
    """
    if _CONFIG.jax_default_prng_impl != "threefry2x32":
        raise ConfigError(
            f"--deterministic: random numbers of {_CONFIG.jax_default_prng_impl} may differ "
            "from run to run. Unset JAX_DEFAULT_PRNG_IMPL."
        )
    jax.config.update("jax_threefry_partitionable", True)
    flags = os.environ.get("XLA_FLAGS", "").split()
    # A bare flag means true. The last of several flags counts.
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


def enable_compilation_cache() -> Path | None:
    """Turns JAX's persistent cache on, in the user's cache folder, and returns the folder, if any.

    Programs that compile in less than a tenth of a second are not cached.
    `JAX_COMPILATION_CACHE_DIR` names another folder; an empty name switches the cache off. Only
    this user can write into the folder made here, because its programs are loaded and run.
    """
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_SECONDS)
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if named is not None:
        return Path(named) if named else None
    if _CONFIG.jax_compilation_cache_dir:
        return Path(_CONFIG.jax_compilation_cache_dir)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "hackmatrix_rl" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # training works without a writable home
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
