"""Compiled programs kept between runs, so that a second start does not compile anew."""

import os
from pathlib import Path
from typing import Any

import jax


def enable_compilation_cache() -> Path | None:
    """Turns JAX's persistent cache on, in the user's cache folder.

    A folder named by `JAX_COMPILATION_CACHE_DIR` is used instead, and an empty name there
    switches the cache off. Only this user can write into the folder made here: what lies in
    it is loaded and run.

    Returns:
        The folder, or `None` where there is none.
    """
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
    except OSError:  # a home that cannot be written is no reason not to train
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
