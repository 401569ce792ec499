"""Settings of JAX that this package does not support."""

from typing import Any

import jax

from hackmatrix_rl.system.errors._errors import ConfigError

_CONFIG: Any = jax.config  # its attributes are made at run time
_GUARDS = ("", "_host_to_device", "_device_to_host", "_device_to_device")


def check_jax(*, compiles: bool = False) -> None:
    """Raises a ConfigError if JAX has a setting that this package does not support.

    These are `jax_enable_x64`, transfer guards and, with `compiles`, `jax_disable_jit`.
    """
    if _CONFIG.jax_enable_x64:
        raise ConfigError(
            "JAX makes 64-bit numbers here (jax_enable_x64), and this package computes in 32 bits. "
            'Set JAX_ENABLE_X64=0, or jax.config.update("jax_enable_x64", False).'
        )
    for name in (f"jax_transfer_guard{kind}" for kind in _GUARDS):
        if str(getattr(_CONFIG, name)).startswith("disallow"):
            raise ConfigError(
                f"JAX refuses implicit transfers here ({name}), and this package makes some. Unset "
                f'{name.upper()}, or guard only your own code: with jax.transfer_guard("disallow").'
            )
    if compiles and _CONFIG.jax_disable_jit:
        raise ConfigError(
            "JAX compiles nothing here (jax_disable_jit), and a training is one compiled program. "
            "Unset JAX_DISABLE_JIT. To run each operation by itself, use train --debug nojit, or "
            "hm.Trainer(..., eager=True)."
        )
