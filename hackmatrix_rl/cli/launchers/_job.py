"""The job of a launcher, and the exit statuses after which it restarts."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hackmatrix_rl import system
from hackmatrix_rl.system import ExitCode
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, as_given, flag, in_shell

AGAIN = (int(ExitCode.PEER_LOST), 134, 137, int(ExitCode.TERMINATED))
"""Exit statuses after which a restart may succeed. JAX aborts with 134; a kill is 137."""
MOST_RESTARTS = 100
"""Most restarts: to the other hosts, a host that crashes looks like a lost one."""
STOP = tuple(
    int(code)
    for code in (ExitCode.CRASHED, ExitCode.BAD_INPUT, ExitCode.UNHEALTHY, ExitCode.UNSAVED)
)
"""Exit statuses that need a person."""

NEW, RESUME = "--run-dir", "--resume-run"

# Options that only plan, and options that a launcher handles itself.
_APART = {
    *("dry_run", "target", "launcher", "launcher_kind", "workers"),
    *("run_dir", "checkpoint_dir", "space"),
}
# Options whose value may be a file or folder of this machine.
_FILES = ("space", "config", "recipe", "init", "teacher")
_MOST_BYTES = 2**18


@dataclass(frozen=True)
class Job:
    """A command and the machines for it.

    Attributes:
        machines: the machines; for a sweep, of one worker.
        command: the command of `hackmatrix-rl`.
        options: its options with their values, without folders and files.
        files: files and folders of this machine by the name of their option or argument.
        run_dir: the run's folder; `None` if not given.
        checkpoint_dir: the folder of the checkpoints; `None` if not given.
        wandb: whether Weights & Biases needs a login.
        workers: number of workers of a sweep; `None` for a training.
    """

    machines: "system.Machines"
    command: str
    options: tuple[str, ...]
    files: Mapping[str, Path]
    run_dir: str | None
    checkpoint_dir: str | None
    wandb: bool
    workers: int | None

    @classmethod
    def from_typed(
        cls, command: str, typed: Mapping[str, Any], machines: "system.Machines"
    ) -> "Job":
        """The job of a command with the typed options and arguments."""
        files = {}
        options: list[str] = []
        for name, value in typed.items():
            if name in _FILES and Path(value).exists():
                files[name] = Path(value)
            elif name not in _APART:
                options += _spelled(name, value)
        if machines.kind == system.CPU and "cpu_devices" not in typed and "space" not in typed:
            options += _spelled("cpu_devices", None)  # one device per machine, as in the plan
        return cls(
            machines=machines,
            command=command,
            options=tuple(options),
            files=files,
            run_dir=typed.get("run_dir"),
            checkpoint_dir=typed.get("checkpoint_dir"),
            wandb="wandb" in (typed.get("tracker") or "") or bool(typed.get("wandb")),
            workers=typed.get("workers"),
        )

    @property
    def name(self) -> str:
        """The name of the job on its machines."""
        return f"hackmatrix-rl-{'sweep-' * (self.workers is not None)}{self.machines.name}"

    @property
    def aim(self) -> str:
        """The first line of a launcher: what the job does."""
        there = self.machines
        hosts = "the host" if there.hosts == 1 else f"the {there.hosts} hosts"
        where = f"{hosts} of {'a ' * (there.slices == 1)}{there.name}"
        if not there.topology:
            where = f"{there.hosts * there.per_host} x {there.one} on {there.hosts} host"
            where += "s" * (there.hosts > 1)
        if self.workers is None:
            return f"Trains on {where}."
        return f"Does a sweep with {self.workers} workers, each on {where}."

    def words(self, folder: str | None = None) -> list[str]:
        """The command and its options; files are in `folder`, or in their present place."""
        placed = {
            name: str(path) if folder is None else str(PurePosixPath(folder, path.name))
            for name, path in self.files.items()
        }
        arguments = [path for name, path in placed.items() if name == "space"]
        named = [
            word for name, path in placed.items() if name != "space" for word in (flag(name), path)
        ]
        return [self.command, *arguments, *self.options, *named]

    @property
    def resuming(self) -> list[str]:
        """The command that resumes a training, without the run's folder."""
        return [self.command, *(each for each in self.options if each == "--trust-code")]

    def copied(self, folder: str) -> str:
        """Lines of a shell that write the files to `folder`."""
        lines = []
        for name, path in self.files.items():
            try:
                content = system.read_bounded(path, _MOST_BYTES)
            except DamagedFileError as error:
                raise ConfigError(
                    f"{as_given(name, path)}: {error}. --launcher copies files of up to "
                    f"{system.format_bytes(_MOST_BYTES)}. Use a folder that the machines see "
                    "(gs://...), or a launcher of another kind (.sh, .sbatch)."
                ) from error
            text = base64.b64encode(content).decode()
            lines.append(f"base64 -d > {in_shell(f'{folder}/{path.name}')} <<< {text}\n")
        return "".join([f"mkdir -p {folder}\n", *lines] if lines else [])


def _spelled(name: str, value: object) -> list[str]:
    """An option as words of a command line."""
    if isinstance(value, bool):
        return [flag(name if value else f"no_{name}")]
    return [flag(name), "none" if value is None else str(value)]
