"""A cache of compiled programs: a second start does not compile again."""

import os
from pathlib import Path
from typing import Any

import jax

# JAX's own limit of a second would leave out most programs of a start except the update.
_MIN_SECONDS = 0.1


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
    settings: Any = jax.config  # its attributes are made at run time
    if settings.jax_compilation_cache_dir:
        return Path(settings.jax_compilation_cache_dir)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "hackmatrix_rl" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # training works without a writable home
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
