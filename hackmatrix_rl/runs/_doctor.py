"""Checks an installation, part by part."""

import os
import platform
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax

from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._versions import versions
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system import (
    available_memory,
    describe_device,
    enable_compilation_cache,
    format_bytes,
    unseen_accelerator,
    untested_version,
    usable_cores,
)
from hackmatrix_rl.system.errors import ConfigError, check_jax, first_line

Judgement = Literal["ok", "note", "fails"]
_Look = tuple[Judgement, str, str]  # the rest of a `Finding`
LITTLE_MEMORY = 2 << 30
"""Bytes below which the default training of a CPU does not fit next to other programs."""


@dataclass(frozen=True)
class Finding:
    """The result of checking one part of an installation.

    The judgement `note` means that the part works but could be better. `remedy` is empty if there
    is nothing to do.
    """

    part: str
    judgement: Judgement
    found: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """Checks each part in turn; a failure does not stop the rest."""
    parts = (_versions, _settings, _devices, _memory, _cache, _training, _wandb)
    for look in parts:
        part = look.__name__.removeprefix("_")
        try:
            yield Finding(part, *look())
        except Exception as error:  # any error is a finding, and the next part is checked
            yield Finding(part, "fails", first_line(error), "Reinstall the package: pip install .")


def _versions() -> _Look:
    found = versions()
    named = ", ".join(f"{name} {found[name]}" for name in ("python", "jax", "jaxlib", "equinox"))
    untested = untested_version(jax.default_backend())
    if untested:
        return "note", f"{named}; {untested}", "It works, perhaps slower."
    return "ok", named, ""


def _settings() -> _Look:
    try:
        check_jax(compiles=True)
    except ConfigError as error:
        found, _, remedy = str(error).partition(". ")
        return "fails", found, remedy
    return "ok", "32-bit numbers, compiled programs", ""


def _devices() -> _Look:
    unseen = unseen_accelerator(jax.default_backend())
    cores = f"{usable_cores()} cores, {platform.machine()}"
    return "note" if unseen else "ok", f"{describe_device()}; {cores}", unseen or ""


def _memory() -> _Look:
    memory = available_memory()
    if memory is None:
        return "note", "unknown", "Nothing checks whether a run fits."
    size, kind = memory
    found = f"{format_bytes(size)} of {kind} for each device"
    if size < LITTLE_MEMORY:
        return "note", found, "Close other programs, or train with a smaller --num-envs."
    return "ok", found, ""


def _cache() -> _Look:
    folder = enable_compilation_cache()
    if folder is None:
        remedy = "Set JAX_COMPILATION_CACHE_DIR to a folder that you can write to."
        return "note", "none: every start compiles again", remedy
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = f"Make {folder} writable, or set JAX_COMPILATION_CACHE_DIR to another folder."
        return "fails", f"{folder}: {error.strerror}", remedy
    size = sum(file.stat().st_size for file in Path(folder).glob("*") if file.is_file())
    return "ok", f"{folder}, {format_bytes(size)}", ""


def _training() -> _Look:
    """Compiles and runs one small update, as `train` does."""
    config = make_config("debug", {"num_envs": 8, "num_steps": 4, "width": 8, "num_minibatches": 2})
    began = time.perf_counter()
    trainer = compose(config)
    *_, metrics = trainer.train(1, key=jax.random.key(1))
    seconds = time.perf_counter() - began
    return "ok", f"an update of {metrics.env_steps} steps, compiled in {seconds:.0f} s", ""


def _wandb() -> _Look:
    import wandb

    mode = os.environ.get("WANDB_MODE", "online")
    found = f"{wandb.__version__}, mode {mode}"
    if mode == "online" and not _logged_in():
        remedy = "For train --tracker wandb: wandb login, or WANDB_MODE=offline."
        return "note", f"{found}, not logged in", remedy
    return "ok", found, ""


def _logged_in() -> bool:
    """Whether Weights & Biases finds an API key; this does not use the network."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    file = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    return file.exists() and "wandb" in file.read_text(encoding="utf-8", errors="replace")
