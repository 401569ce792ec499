"""The script that starts a training on a slice of TPUs in Google Cloud.

Sources: Google Cloud, "Run JAX code on TPU slices", "TPU software versions", "Manage TPU Spot VMs".
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from hackmatrix_rl import system
from hackmatrix_rl.cli._settings import typed_options
from hackmatrix_rl.system.errors import ConfigError, flag, in_shell

# What a slice is called there, and the system that its machines start with.
_CLOUD: Mapping[str, tuple[str, str]] = {
    "v4": ("v4", "tpu-ubuntu2204-base"),
    "v5e": ("v5litepod", "v2-alpha-tpuv5-lite"),
    "v5p": ("v5p", "v2-alpha-tpuv5"),
    "v6e": ("v6e", "v2-alpha-tpuv6e"),
}
# Options of the planning, and those that the script has lines for.
_APART = {"dry_run", "target", "launcher", "run_dir", "checkpoint_dir"}
# Options whose files and folders lie on this machine.
_FILES = {"config", "recipe", "init", "teacher"}

# Only process 0, which is on host 0, asks Weights & Biases.
_LOGIN = '[ ! -f ~/.netrc ] || tpu scp ~/.netrc "$name": --worker=0\n'

_SCRIPT = """\
#!/usr/bin/env bash
# Trains on {hosts} of a {name}, with a process on each.
#   PACKAGE=git+https://... {needed}ZONE=... bash {file}
# After a preemption: the same with RESUME=1 before it. SPOT=1 asks for a cheaper slice, which is
# preempted more often. The slice costs until it is deleted.
set -euo pipefail
: "${{PACKAGE:?what pip installs, such as git+https://HOST/hackmatrix-rl}}"
: "${{ZONE:?the zone of Google Cloud, such as us-central2-b}}"
name=${{NAME:-hackmatrix-rl-{name}}}
folder={folder}
checkpoints=${{CHECKPOINTS{checkpoints}}}
tpu() {{ gcloud compute tpus tpu-vm "$@" --zone "$ZONE"; }}
quoted() {{ printf %q "$1"; }}
on_every_host() {{ tpu ssh "$name" --worker=all --command "$1"; }}

state=$(tpu describe "$name" --format 'value(state)' 2> /dev/null || true)
if [ "$state" = PREEMPTED ]; then  # it never comes back
  tpu delete "$name" --quiet
  state=
fi
[ -n "$state" ] ||
  tpu create "$name" --accelerator-type {accelerator} --version {version} ${{SPOT:+--spot}}
{copies}# The system's own Python is older than 3.11.
on_every_host "pip install -q uv && python3 -m uv tool install -q --python 3.12 --with gcsfs \\
  'hackmatrix-rl[tpu] @ $PACKAGE'"
if [ -n "${{RESUME:-}}" ]; then
  train="{command} --resume-run $(quoted "$folder")"
else
  train={train}
  train+=" --run-dir $(quoted "$folder")"
fi
[ -z "$checkpoints" ] || train+=" --checkpoint-dir $(quoted "$checkpoints")"
on_every_host "~/.local/bin/hackmatrix-rl $train"
"""


def check_launcher(file: Path, target: "system.Target") -> None:
    """Raises a ConfigError if no script for this slice can be written into the file."""
    said = f"--launcher {file}: "
    if file.suffix != ".sh":
        raise ConfigError(f"{said}it is a shell script. Use a name that ends in .sh.")
    if file.exists():
        raise ConfigError(f"{said}exists already. Use another name, or delete it.")
    system.check_output_file(file, "--launcher")
    if target.name.partition("-")[0] not in _CLOUD:
        raise ConfigError(
            f"{said}starts one slice of {', '.join(_CLOUD)}, not {target.name}. Leave --launcher "
            "out."
        )


def write_launcher(file: Path, target: "system.Target", context: click.Context) -> None:
    """Writes the script, with the options that this command was given."""
    prefix, _, size = target.name.partition("-")
    accelerator, version = _CLOUD[prefix]
    given, copies = [], []
    for name, value in typed_options(context).items():
        if name in _APART:
            continue
        if name in _FILES and Path(value).exists():
            copies.append(f'tpu scp {shlex.quote(str(value))} "$name": --recurse --worker=all\n')
            value = Path(value).name
        given += _spelled(name, value)
    if context.params.get("wandb"):
        copies.append(_LOGIN)
    assert context.info_name is not None
    folder, kept = (context.params.get(name) for name in ("run_dir", "checkpoint_dir"))
    asks = target.hosts > 1 and kept is None
    asked = "a folder that all hosts see, such as gs://BUCKET/NAME"
    script = _SCRIPT.format(
        name=target.name,
        hosts="the host" if target.hosts == 1 else f"the {target.hosts} hosts",
        file=in_shell(file.name),
        needed="CHECKPOINTS=gs://BUCKET/NAME " if asks else "",
        folder="runs/$name" if folder is None else shlex.quote(folder),
        checkpoints=f":?{asked}" if asks else f":-{shlex.quote(kept or '')}",
        accelerator=f"{accelerator}-{size}",
        version=version,
        copies="".join(copies),
        command=context.info_name,
        train=shlex.quote(shlex.join([context.info_name, *given])),
    )
    system.write_whole(file, script)


def _spelled(name: str, value: object) -> list[str]:
    """An option as a shell takes it."""
    if isinstance(value, bool):
        return [flag(name if value else f"no_{name}")]
    return [flag(name), "none" if value is None else str(value)]
