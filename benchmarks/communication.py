"""The traffic between devices in an update, from a program of XLA's CPU compiler.

    python benchmarks/communication.py [--devices 8 64 512] [--fsdp 1 8] [--json FILE]

It compiles the update of the cpu preset's network for simulated CPU devices, one process for each
number of devices, and reads the collectives from the compiled program. Nothing runs. Each device
has few games and steps: the traffic depends only on the parameters and the number of minibatches.
The compiler of a TPU or GPU may choose other collectives.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument(
        "--fsdp", type=int, nargs="+", default=[1, 8], help="sizes of the mesh axis fsdp"
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # the mesh of a child process
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one)))
        return
    print("mesh                 operations  sent by a device           gathers  compile s")
    rows = []
    for devices in options.devices:
        for fsdp in options.fsdp:
            mesh = f"data={devices // fsdp},fsdp={fsdp}"
            flags = f"--xla_force_host_platform_device_count={devices}"
            found = subprocess.run(
                [sys.executable, __file__, "--one", mesh],
                env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
                capture_output=True,
                text=True,
                check=False,
            )
            if found.returncode:
                sys.exit(f"{mesh}: {found.stderr.strip()}")
            row = json.loads(found.stdout.splitlines()[-1])
            rows.append(row)
            gathers = row["by_kind"].get("all-gather", 0.0)
            print(
                f"{mesh:20} {row['operations']:10,d}  {row['sent_bytes'] / 2**20:12.2f} MiB  "
                f"{gathers / 2**20:12.2f} MiB  {row['compile_seconds']:9.1f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


def measure(mesh: str) -> dict[str, object]:
    """The communication of an update on one mesh, in this process."""
    # Imported after the number of devices is set, because JAX reads it at import.
    from hackmatrix_rl.agent.precision import parameters_of
    from hackmatrix_rl.runs import compose
    from hackmatrix_rl.runs.config import make_config
    from hackmatrix_rl.training.compiled import collectives
    from hackmatrix_rl.training.sharding import parse_mesh

    import jax  # isort: skip

    lengths = parse_mesh(mesh)
    assert lengths is not None
    devices = lengths["data"] * lengths["fsdp"]
    config = make_config("cpu", {"mesh": mesh, "num_envs": 8 * devices, "num_steps": 4})
    trainer = compose(config)
    began = time.perf_counter()
    program = trainer.lower().compile().as_text()
    seconds = time.perf_counter() - began
    found = collectives(program or "", devices)
    by_kind: dict[str, float] = {}
    for each in found:
        by_kind[each.kind] = by_kind.get(each.kind, 0.0) + each.sent_bytes
    return {
        "mesh": mesh,
        "parameters": sum(x.size for x in jax.tree.leaves(parameters_of(trainer.policy))),
        "gradient_steps": config.update_epochs * config.minibatches,
        "operations": sum(each.times for each in found),
        "sent_bytes": sum(by_kind.values()),
        "by_kind": by_kind,
        "compile_seconds": seconds,
    }


if __name__ == "__main__":
    main()
