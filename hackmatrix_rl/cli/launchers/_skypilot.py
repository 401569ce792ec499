"""The managed job for SkyPilot.

Sources: SkyPilot 0.14.1, "Managed Jobs", "SkyPilot YAML", "Cloud TPU", and its own schemas.
"""

from collections.abc import Mapping
from textwrap import indent

from hackmatrix_rl import system
from hackmatrix_rl.cli.launchers._empty_machine import SHARED, connected, install, start
from hackmatrix_rl.cli.launchers._gcloud import CLOUD
from hackmatrix_rl.cli.launchers._job import AGAIN, Job
from hackmatrix_rl.system.errors import in_shell

_TASK = """\
# {aim}
#   sky jobs launch {given}{file}
{more}\
# SkyPilot starts it again after a preemption, and after an exit status of recover_on_exit_codes.
name: {name}
num_nodes: {nodes}
resources:
  accelerators: {accelerators}
{runtime}\
  job_recovery:
    max_restarts_on_errors: 0
    recover_on_exit_codes: [{again}]
{shared}\
envs:
{envs}\
{secrets}\
setup: |
  set -euo pipefail
{setup}\
run: |
  set -euo pipefail
{decided}\
  status=0
  {command} || status=$?
  if [ $status = 137 ]; then status={lost}; fi  # SkyPilot ends the other nodes with 137
  exit $status
"""
# All but 137, with which SkyPilot also ends the healthy nodes of a task that needs a person.
_AGAIN = [status for status in AGAIN if status != 137]
# The GPUs in SkyPilot.
_GPUS: Mapping[str, str] = {
    "h100": "H100",
    "h200": "H200",
    "a100": "A100-80GB",
    "l4": "L4",
    "rtx4090": "RTX4090",
}
_SHARED = f"""\
volumes:
  {SHARED}: hackmatrix-rl
"""
_SECRETS = """\
secrets:
  WANDB_API_KEY: null
"""


def can(machines: "system.Machines") -> bool:
    """Whether SkyPilot can start a training on these machines."""
    return machines.kind in _GPUS or (machines.kind in CLOUD and machines.slices == 1)


def render(job: Job, file: str) -> str:
    there, array = job.machines, job.workers is not None
    envs = {"PACKAGE": "git+https://HOST/hackmatrix-rl"}
    if not array and job.checkpoint_dir is None:
        envs["CHECKPOINTS"] = "gs://BUCKET/NAME"
    asks = [f"--env {name}={example} " for name, example in envs.items()]
    asks += ["--secret WANDB_API_KEY "] * job.wandb
    if there.gpus:
        accelerators, runtime = f"{_GPUS[there.kind]}:{there.per_host}", ""
        nodes = there.hosts if job.workers is None else job.workers
    else:
        kind, version = CLOUD[there.kind]
        accelerators = f"tpu-{kind}-{there.name.partition('-')[2]}"
        runtime = f"  accelerator_args:\n    runtime_version: {version}\n"
        nodes = 1  # a slice, whatever number of hosts it has
    # The hosts of a TPU slice discover each other.
    several = there.gpus and there.hosts > 1
    head = '$(head -n 1 <<< "$SKYPILOT_NODE_IPS")'
    processes = connected(head, str(there.hosts), "$SKYPILOT_NODE_RANK") if several else ""
    decided, command = start(job, processes)
    return _TASK.format(
        aim=job.aim,
        given="".join(asks),
        file=in_shell(file),
        more="# hackmatrix-rl is a volume that all nodes may write (sky volumes apply).\n" * array,
        name=job.name,
        nodes=nodes,
        accelerators=accelerators,
        runtime=runtime,
        again=", ".join(map(str, _AGAIN)),
        lost=AGAIN[0],
        shared=_SHARED if array else "",
        envs="".join(f"  {name}: null\n" for name in envs),
        secrets=_SECRETS if job.wandb else "",
        setup=indent(install(job), "  "),
        decided=indent(decided, "  "),
        command=command,
    )
