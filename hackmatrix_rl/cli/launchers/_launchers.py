"""The kinds of launchers, and how `--launcher` selects one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hackmatrix_rl import system
from hackmatrix_rl.cli.launchers import _gcloud, _jobset, _skypilot, _slurm
from hackmatrix_rl.cli.launchers._job import Job
from hackmatrix_rl.system.errors import ConfigError


@dataclass(frozen=True)
class _Kind:
    """A kind of launcher.

    Attributes:
        ending: the suffix of its files.
        starts: the machines that it supports, in words.
        can: whether it can start a training on given machines.
        can_sweep: whether it can start the workers of a sweep there as well.
        render: returns the text of the file from a job and the file's name.
    """

    ending: str
    starts: str
    can: "Callable[[system.Machines], bool]"
    can_sweep: "Callable[[system.Machines], bool]"
    render: Callable[[Job, str], str]


def _none(machines: "system.Machines") -> bool:
    return False


def _gpus(machines: "system.Machines") -> bool:
    return machines.gpus


KINDS: Mapping[str, _Kind] = {
    "gcloud": _Kind(".sh", "one TPU slice (v4, v5e, v5p, v6e)", _gcloud.can, _none, _gcloud.render),
    "slurm": _Kind(".sbatch", "GPUs and cpu", _slurm.can, _slurm.can, _slurm.render),
    "skypilot": _Kind(
        ".sky.yaml",
        "one TPU slice (v4, v5e, v5p, v6e) and GPUs",
        _skypilot.can,
        _gpus,
        _skypilot.render,
    ),
    "jobset": _Kind(
        ".jobset.yaml", "TPU slices and GKE's GPUs", _jobset.can, _gpus, _jobset.render
    ),
}
"""The kinds of launchers by their name in `--launcher-kind`."""


@dataclass(frozen=True)
class Launcher:
    """A launcher that can be written.

    Attributes:
        file: the file.
        text: the content of the file.
        starts: `training` or `sweep`.
    """

    file: Path
    text: str
    starts: str

    def write(self) -> str:
        """Writes the file; returns a line about it."""
        system.write_whole(self.file, self.text)
        return f"Wrote {self.file}, which starts this {self.starts} there"


def make_launcher(
    file: Path | None,
    kind: str | None,
    target: str | None,
    command: str | None,
    typed: Mapping[str, Any],
) -> Launcher | None:
    """The launcher of `--launcher`; `None` if it was not given.

    Args:
        file: the value of `--launcher`, or `None`.
        kind: the value of `--launcher-kind`, or `None`.
        target: the value of `--target`, or `None`.
        command: the command of `hackmatrix-rl`.
        typed: the typed options and arguments.

    Raises:
        ConfigError: the launcher does not support these machines, a file of the options cannot be
            copied to them, or the launcher cannot be written.
    """
    if file is None:
        if kind is not None:
            raise ConfigError(f"--launcher-kind {kind}: needs --launcher, the file to write.")
        return None
    workers = typed.get("workers")
    said = f"--launcher {file}: "
    chosen = _kind_of(file, kind)
    if target is None:
        raise ConfigError(f"{said}needs --target, the devices that it is for, such as h100.")
    machines = system.machines(target)
    if workers is not None and machines.hosts > 1:
        raise ConfigError(f"--target {target}: a trial of a sweep trains on one host. Use fewer.")

    def works(each: _Kind) -> bool:
        return each.can(machines) and (workers is None or each.can_sweep(machines))

    if not works(chosen):
        others = [each.ending for each in KINDS.values() if works(each)]
        what = "starts" if workers is None else "starts no sweep there; it starts trainings on"
        use = f"a file that ends in {' or '.join(others)}" if others else "other devices"
        raise ConfigError(f"{said}{what} {chosen.starts}, not --target {target}. Use {use}.")
    if file.exists():
        raise ConfigError(f"{said}exists already. Use another name, or delete it.")
    system.check_output_file(file, "--launcher")
    assert command is not None, "click names it"
    text = chosen.render(Job.from_typed(command, typed, machines), file.name)
    return Launcher(file, text, "training" if workers is None else "sweep")


def _kind_of(file: Path, kind: str | None) -> _Kind:
    if kind is not None:
        return KINDS[kind]
    for each in KINDS.values():
        if file.name.endswith(each.ending):
            return each
    *endings, last = (each.ending for each in KINDS.values())
    raise ConfigError(
        f"--launcher {file}: its ending names no kind of launcher. Use a name that ends in "
        f"{', '.join(endings)} or {last}, or add --launcher-kind."
    )
