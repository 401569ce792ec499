"""The start of a training: imports, construction, and compilation, cold and from the cache.

    python benchmarks/startup.py [--preset cpu] [--repeats 3] [--json FILE]

Each start is a process. The first of a pair has an empty compilation cache, the second one uses the
programs of the first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = ("import jax, equinox", "import hackmatrix_rl", "modules", "begin", "trace", "compile")

# Imports are timed in a new process.
CHILD = """
import json, sys, time
marks = [time.perf_counter()]
import equinox, jax
marks.append(time.perf_counter())
import hackmatrix_rl
marks.append(time.perf_counter())
from hackmatrix_rl.system._devices import enable_compilation_cache
from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._keys import training_keys
from hackmatrix_rl.system._devices import cut_cpu
from hackmatrix_rl.runs.config._presets import make_config
from hackmatrix_rl.training._program import compiler_options
enable_compilation_cache()
config = make_config(sys.argv[1], {})
if config.cpu_devices is not None:
    cut_cpu(config.cpu_devices)
trainer = compose(config)
marks.append(time.perf_counter())
trainer.start(training_keys(config))
jax.block_until_ready(jax.tree.leaves(equinox.filter(trainer.state, equinox.is_array)))
marks.append(time.perf_counter())
lowered = trainer.lower()
marks.append(time.perf_counter())
lowered.compile(compiler_options(trainer.mesh))
marks.append(time.perf_counter())
print(json.dumps([later - before for before, later in zip(marks, marks[1:])]))
"""


def start(preset: str, cache: str) -> dict[str, float]:
    """Seconds of each part of one start."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, preset],
        env=os.environ | {"JAX_COMPILATION_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(PARTS, json.loads(done.stdout.splitlines()[-1]), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    starts: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as cache:
            for kind in starts:
                starts[kind].append(start(options.preset, cache))
    rows = [
        {"part": part}
        | {kind: statistics.median(each[part] for each in found) for kind, found in starts.items()}
        for part in PARTS
    ]
    for row in rows:
        print(f"{row['part']:24s} cold {row['cold']:6.2f} s   warm {row['warm']:6.2f} s")
    if options.json is not None:
        options.json.write_text(json.dumps({"preset": options.preset, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
