"""Tests that a resumed run ends in the same bits as an uninterrupted run.

One run trains without interruption. A second run is killed by SIGKILL after a checkpoint halfway
and resumed twice: with a warm and with a cold compilation cache. All three must end in the same
bits.
"""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix_rl.runs.checkpoints import NAME as MANIFEST
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays, read_metadata
from hackmatrix_rl.runs.config import RunConfig, settings_of
from hackmatrix_rl.training import Stored

PROGRAM = (sys.executable, "-m", "hackmatrix_rl")
_LOOK_SECONDS = 0.02


class ProofError(RuntimeError):
    """The experiment failed before it could compare the states."""


@dataclass(frozen=True)
class ResumeProof:
    """The result of the experiment.

    `differences` has the first difference of each resumed run's final state from that of the
    uninterrupted run, or `None`. `leaves` counts the compared arrays, `size` their bytes, and
    `killed_at` is the update of the checkpoint before the kill.
    """

    differences: dict[str, str | None]
    leaves: int
    size: int
    updates: int
    killed_at: int
    device: str
    versions: str

    @property
    def same(self) -> bool:
        """Whether all final states have the same bits."""
        return not any(self.differences.values())

    def as_dict(self) -> dict[str, Any]:
        """The fields in a form for JSON."""
        return {"same": self.same, **dataclasses.asdict(self)}


def verify_resume(
    config: RunConfig,
    *,
    updates: int,
    folder: Path,
    report: Callable[[str], None],
    train: Sequence[str] | None = None,
    timeout: float = 3600.0,
) -> ResumeProof:
    """Trains with and without interruption, in separate processes; compares the final states.

    The kill comes after `updates` of `2 * updates` updates. `folder` is empty and takes all files.
    This function overrides length, folders and save intervals of the config. `train` is the command
    that trains, by default the config's; `timeout` limits each process, in seconds.
    """
    config.check_provable()
    config = dataclasses.replace(
        config.shorten(2 * updates),
        save_interval=updates,
        keep=2,
        run_dir=None,
        checkpoint_dir=None,
        tracker=None,
    )
    train = (*PROGRAM, config.command) if train is None else train
    settings = folder / "settings.toml"
    settings.write_text(toml_of(config), encoding="utf-8")
    begin = [*train, "--config", str(settings)]
    warm, cold = folder / "cache", folder / "empty_cache"

    straight = folder / "straight"
    report(f"training {2 * updates} updates straight through ...")
    _finish(_spawn([*begin, "--run-dir", str(straight)], warm, straight), timeout, straight)

    stopped = folder / "stopped"
    report(f"training again, to be killed (SIGKILL) after the checkpoint of update {updates} ...")
    process = _spawn([*begin, "--run-dir", str(stopped)], warm, stopped)
    _kill_after(process, stopped / "checkpoints" / str(updates) / MANIFEST, timeout, stopped)

    ends = {}
    for name, cache in (("warm compilation cache", warm), ("cold compilation cache", cold)):
        copy = folder / name.replace(" ", "_")
        shutil.copytree(stopped, copy)
        report(f"resuming with a {name} ...")
        # The user named the network to this process.
        resumed = _spawn([*train, "--resume-run", str(copy), "--trust-code"], cache, copy)
        _finish(resumed, timeout, copy)
        ends[name] = _end(copy, least=2 * updates)

    whole = _end(straight, least=2 * updates)
    metadata = read_metadata(find_checkpoint(straight))
    return ResumeProof(
        differences={name: first_difference(whole, end) for name, end in ends.items()},
        leaves=len(whole.arrays),
        size=sum(array.nbytes for array in whole.arrays.values()),
        updates=metadata["update"],
        killed_at=updates,
        device=metadata["device"],
        versions=", ".join(f"{name} {number}" for name, number in metadata["versions"].items()),
    )


def toml_of(config: RunConfig) -> str:
    """The settings as a file for `--config`; plain JSON values are valid TOML."""

    def plain(each: RunConfig) -> str:
        values = {field.name: getattr(each, field.name) for field in settings_of(each)}
        shown = {n: "none" if value is None else value for n, value in values.items()}
        shown["algorithm"] = each.algorithm
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in shown.items())

    if config.then is None:
        return plain(config)
    return "".join(f"[[stage]]\n{plain(each)}\n" for each in config.stages)


def _output(run: Path) -> Path:
    return run.with_name(run.name + ".txt")


def _spawn(command: Sequence[str], cache: Path, run: Path) -> "subprocess.Popen[bytes]":
    with _output(run).open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            # The file has all settings; the variable must not override them.
            env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache), "HACKMATRIX_RL_FLAGS": ""},
        )


def _finish(process: "subprocess.Popen[bytes]", timeout: float, run: Path) -> None:
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise _too_long(process, timeout, run) from None
    if status != 0:
        raise ProofError(f"{run.name} ended with exit status {status}; see {_output(run)}")


def _kill_after(process: "subprocess.Popen[bytes]", sign: Path, timeout: float, run: Path) -> None:
    end = time.monotonic() + timeout
    while not sign.exists():
        if process.poll() is not None:
            raise ProofError(
                f"{run.name} ended with exit status {process.returncode} before its checkpoint; "
                f"see {_output(run)}"
            )
        if time.monotonic() > end:
            raise _too_long(process, timeout, run)
        time.sleep(_LOOK_SECONDS)
    process.kill()
    if process.wait() != -signal.SIGKILL:
        raise ProofError(f"{run.name} had ended before it could be killed; use more --updates")


def _too_long(process: "subprocess.Popen[bytes]", timeout: float, run: Path) -> ProofError:
    process.kill()
    process.wait()
    return ProofError(f"{run.name} took longer than {timeout:.0f} s")


def _end(run: Path, *, least: int) -> Stored:
    """The final training state of a run."""
    checkpoint = find_checkpoint(run)
    reached = read_metadata(checkpoint)["update"]
    if reached < least:
        raise ProofError(f"{run.name} ended at update {reached}, before {least}")
    return read_arrays(checkpoint, "training")


def first_difference(one: Stored, other: Stored) -> str | None:
    """The first difference between the bits of two training states, in words, or `None`."""
    if one.arrays.keys() != other.arrays.keys():
        odd = sorted(one.arrays.keys() ^ other.arrays.keys())[0]
        return f"{odd} is in one of them only"
    if one.keys != other.keys:
        return "other random generators"
    for name, array in one.arrays.items():
        against = other.arrays[name]
        if array.dtype != against.dtype or array.shape != against.shape:
            return (
                f"{name}: {array.dtype}{list(array.shape)} against "
                f"{against.dtype}{list(against.shape)}"
            )
        # Compare bits, not values: a NaN equals itself, and -0 is not 0.
        bits, others = (
            np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize)
            for x in (array, against)
        )
        differs = np.any(bits != others, axis=1)
        if differs.any():
            index = np.unravel_index(int(np.argmax(differs)), array.shape)
            return f"{name}{list(map(int, index))}: {array[index]} against {against[index]}"
    return None
