"""The shell script for a bare machine, for SkyPilot and Kubernetes."""

from hackmatrix_rl.cli.launchers._job import AGAIN, NEW, RESUME, Job
from hackmatrix_rl.system.errors import in_shell

SHARED = "/shared"
"""The folder that all workers of a sweep see."""
PORT = 8476
"""The port on which process 0 waits for the others."""

_FILES = "/tmp/files"
_INSTALL = """\
python3 -m pip install -q uv
python3 -m uv tool install -q --python 3.12 --with gcsfs "hackmatrix-rl[{extras}] @ $PACKAGE"
"""
# Before the processes connect, no host writes a checkpoint, so all hosts see the same ones.
_TRAIN = """\
begun=0
"$(python3 -m uv tool dir)/hackmatrix-rl/bin/python" - "$CHECKPOINTS" << 'END' || begun=$?
import sys
from etils import epath
sys.exit(0 if any(epath.Path(sys.argv[1]).glob("*/manifest.json")) else 9)
END
case $begun in
  0) train=({resume}) ;;
  9) train=({new}) ;;
  *) exit {again} ;;  # the bucket did not answer
esac
"""
_PROGRAM = "~/.local/bin/hackmatrix-rl"


def install(job: Job) -> str:
    """Lines that install the package and write the files of the job."""
    device = "cuda" if job.machines.gpus else "tpu"
    extras = device if job.workers is None else f"{device},sweep"
    return _INSTALL.format(extras=extras) + job.copied(_FILES)


def start(job: Job, processes: str = "") -> tuple[str, str]:
    """Lines that decide whether the job starts or is resumed, and the command that runs it.

    `processes` are the options that connect the hosts, quoted for the shell.
    """
    words = job.words(_FILES)
    if job.workers is not None:
        return f"cd {SHARED}\n", f"{_PROGRAM} {in_shell(*words)}"
    folder = job.run_dir or f"runs/{job.name}"
    kept = "" if job.checkpoint_dir is None else f"CHECKPOINTS={in_shell(job.checkpoint_dir)}\n"
    decided = _TRAIN.format(
        resume=in_shell(*job.resuming, RESUME, folder),
        new=in_shell(*words, NEW, folder),
        again=AGAIN[0],
    )
    # One host may install its packages minutes before another.
    waits = " --connect-timeout 1800" if job.machines.hosts > 1 else ""
    options = f'--checkpoint-dir "$CHECKPOINTS"{waits}{processes}'
    return kept + decided, f'{_PROGRAM} "${{train[@]}}" {options}'


def connected(coordinator: str, processes: str, process: str) -> str:
    """The options of a host that JAX does not connect automatically."""
    numbers = f'--num-processes {processes} --process-id "{process}"'
    return f' --coordinator "{coordinator}:{PORT}" {numbers}'
