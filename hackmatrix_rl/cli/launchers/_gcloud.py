"""The script that starts a training on a slice of TPUs in Google Cloud.

Sources: Google Cloud, "Run JAX code on TPU slices", "TPU software versions", "Manage TPU Spot VMs".
"""

import shlex
from collections.abc import Mapping

from hackmatrix_rl import system
from hackmatrix_rl.cli.launchers._job import AGAIN, NEW, RESUME, Job
from hackmatrix_rl.system.errors import in_shell

CLOUD: Mapping[str, tuple[str, str]] = {
    "v4": ("v4", "tpu-ubuntu2204-base"),
    "v5e": ("v5litepod", "v2-alpha-tpuv5-lite"),
    "v5p": ("v5p", "v2-alpha-tpuv5"),
    "v6e": ("v6e", "v2-alpha-tpuv6e"),
}
"""By kind of slice, the prefix of its type in Google Cloud, and the image of its machines."""

# Only process 0, which is on host 0, uses Weights & Biases.
_LOGIN = '[ ! -f ~/.netrc ] || tpu scp ~/.netrc "$name": --worker=0'

_SCRIPT = """\
#!/usr/bin/env bash
# {aim}
#   PACKAGE=git+https://... {needed}ZONE=... bash {file}
# After a preemption it makes the slice again and resumes. RESUME=1 before it resumes from the start
# on. SPOT=1 asks for a cheaper slice, which is preempted more often. The slice costs until it is
# deleted.
set -euo pipefail
: "${{PACKAGE:?what pip installs, such as git+https://HOST/hackmatrix-rl}}"
: "${{ZONE:?the zone of Google Cloud, such as us-central2-b}}"
name=${{NAME:-{name}}}
folder={folder}
checkpoints=${{CHECKPOINTS{checkpoints}}}
tpu() {{ gcloud compute tpus tpu-vm "$@" --zone "$ZONE"; }}
quoted() {{ printf %q "$1"; }}
on_every_host() {{ tpu ssh "$name" --worker=all --command "$1"; }}
state() {{ tpu describe "$name" --format 'value(state)' 2> /dev/null || true; }}

resume=${{RESUME:-}}
while true; do
  state=$(state)
  if [ "$state" = PREEMPTED ]; then  # it never comes back
    tpu delete "$name" --quiet
    state=
  fi
  [ -n "$state" ] ||
    tpu create "$name" --accelerator-type {accelerator} --version {version} ${{SPOT:+--spot}}
{copies}  # The system's own Python is older than 3.11.
  on_every_host "pip install -q uv && python3 -m uv tool install -q --python 3.12 --with gcsfs \\
    'hackmatrix-rl[tpu] @ $PACKAGE'"
  if [ -n "$resume" ]; then
    train={resume}" $(quoted "$folder")"
  else
    train={new}" $(quoted "$folder")"
  fi
  [ -z "$checkpoints" ] || train+=" --checkpoint-dir $(quoted "$checkpoints")"
  # shellcheck disable=SC2088  # the hosts expand it
  on_every_host "~/.local/bin/hackmatrix-rl $train" && exit 0
  status=$?
  case "$status $(state)" in
    *" PREEMPTED" | {again}) resume=again ;;  # a host was lost
    "2 "*)  # it was lost before the first checkpoint; a bucket that holds a run refuses a new one
      [ "$resume" = again ] || exit 2
      resume=
      ;;
    *) exit "$status" ;;
  esac
  sleep 30
done
"""


def can(machines: "system.Machines") -> bool:
    """Whether this script can start a training on these machines."""
    return machines.kind in CLOUD and machines.slices == 1


def render(job: Job, file: str) -> str:
    there, kept = job.machines, job.checkpoint_dir
    accelerator, version = CLOUD[there.kind]
    copies = [
        f'tpu scp {in_shell(path)} "$name": --recurse --worker=all' for path in job.files.values()
    ] + [_LOGIN] * job.wandb
    asks = there.hosts > 1 and kept is None
    asked = "a folder that all hosts see, such as gs://BUCKET/NAME"
    return _SCRIPT.format(
        aim=job.aim,
        name=job.name,
        file=in_shell(file),
        needed="CHECKPOINTS=gs://BUCKET/NAME " if asks else "",
        folder='"runs/$name"' if job.run_dir is None else in_shell(job.run_dir),
        checkpoints=f":?{asked}" if asks else f":-{in_shell(kept or '')}",
        accelerator=f"{accelerator}-{there.name.partition('-')[2]}",
        version=version,
        copies="".join(f"  {each}\n" for each in copies),
        resume=shlex.quote(in_shell(*job.resuming, RESUME)),
        new=shlex.quote(in_shell(*job.words(""), NEW)),
        again=" | ".join(f'"{status} "*' for status in AGAIN),
    )
