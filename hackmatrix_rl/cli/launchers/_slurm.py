"""The batch script for SLURM.

Sources: SLURM, "sbatch", "srun", "Job Array Support"; JAX, `jax._src.clusters.slurm_cluster`.
"""

from hackmatrix_rl import system
from hackmatrix_rl.cli.launchers._job import AGAIN, MOST_RESTARTS, NEW, RESUME, Job
from hackmatrix_rl.system.errors import in_shell

_SCRIPT = """\
#!/bin/bash
# {aim} Needs hackmatrix-rl in the PATH, and a folder that all machines see.
#   sbatch --time 24:00:00 {file}
#SBATCH --job-name={name}
{resources}\
#SBATCH --signal=TERM@120  # two minutes to save before the time is up
#SBATCH --requeue
#SBATCH --open-mode=append
{start}\
status=$?
case $status in
  {again})  # a process was lost, or the time was up
    [ "${{SLURM_RESTART_COUNT:-0}}" -ge {most} ] || scontrol requeue "$SLURM_JOB_ID"
    ;;
esac
exit $status
"""
_TRAIN = """\
run={folder}
if [ -e "$run/config.json" ]; then
  {srun} {resume} "$run"{checkpoints}
else
  {srun} {new} "$run"{checkpoints}
fi
"""


def can(machines: "system.Machines") -> bool:
    """Whether SLURM can start a training on these machines."""
    return machines.gpus or machines.kind == system.CPU


def render(job: Job, file: str) -> str:
    there, array = job.machines, job.workers is not None
    # JAX assigns one GPU of a node to each task. A worker of a sweep uses all of them.
    tasks = 1 if array else there.per_host
    resources = [f"--nodes={there.hosts}", f"--ntasks-per-node={tasks}"]
    gpus = f"--gpus-per-node={there.kind}:{there.per_host}"
    resources.append(gpus if there.gpus else "--exclusive")
    if job.workers is not None:
        resources.insert(0, f"--array=0-{job.workers - 1}")
    # Otherwise SLURM may bind a task to one core.
    srun = f"srun {'--cpu-bind=none ' * (there.kind == system.CPU)}hackmatrix-rl"
    kept = (
        "" if job.checkpoint_dir is None else f" {in_shell('--checkpoint-dir', job.checkpoint_dir)}"
    )
    start = f"{srun} {in_shell(*job.words())}\n"
    if not array:
        start = _TRAIN.format(
            folder='"runs/$SLURM_JOB_ID"' if job.run_dir is None else in_shell(job.run_dir),
            srun=srun,
            resume=in_shell(*job.resuming, RESUME),
            new=in_shell(*job.words(), NEW),
            checkpoints=kept,
        )
    return _SCRIPT.format(
        aim=job.aim,
        file=in_shell(file),
        name=job.name,
        resources="".join(f"#SBATCH {each}\n" for each in resources),
        start=start,
        most=MOST_RESTARTS,
        again=" | ".join(map(str, AGAIN)),
    )
