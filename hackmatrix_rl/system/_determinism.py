"""Settings that make a run repeat bit for bit.

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
from typing import Any

import jax

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.system._compatibility import backend_started

GPU_FLAG = "--xla_gpu_deterministic_ops"


def make_deterministic() -> None:
    """Makes runs repeatable. Call it before JAX computes anything.

    A second call checks the settings again.

    Raises:
        ConfigError: JAX has started on a GPU without the flag, or the environment asks for the
            opposite.
    """
    settings: Any = jax.config  # its attributes are made at run time
    if settings.jax_default_prng_impl != "threefry2x32":
        raise ConfigError(
            f"--deterministic: random numbers of {settings.jax_default_prng_impl} may differ "
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
