"""Runs all benchmarks and writes their results into RESULTS.md.

    python benchmarks/all.py [--only environment pgx] [--json FOLDER] [--results FILE]

Each benchmark runs in a process and writes JSON. When it is done, its table in RESULTS.md
between the markers `<!-- name -->` and `<!-- /name -->` is replaced, with machine, versions and
command. The rest of that file does not change. Everything takes about an hour on two cores.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
SHOWN = ("python", "jax", "jaxlib", "equinox", "optax", "pgx")


class Benchmark(NamedTuple):
    """A command with `--json FILE`, the function for its table, and a module it needs."""

    command: tuple[str, ...]
    table: Callable[[Any], list[str]]
    needs: str = "hackmatrix_rl"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]


def spread(figures: dict[str, Any], unit: float = 1) -> str:
    """The median, with smallest and largest in brackets."""
    median, least, most = (figures[name] * unit for name in ("median", "min", "max"))
    return f"{median:,.0f} ({least:,.0f} to {most:,.0f})"


def environment_table(points: Any) -> list[str]:
    headings = ("games", "stage", "steps/s", "ns a step", "compile s", "MiB a device")
    rows = []
    for point in points:
        speed = point["steps_per_second"]
        games = point["num_envs"] * len(speed["runs"])
        rows.append(
            (
                f"{point['num_envs']:,}",
                point["stage"],
                spread(speed),
                f"{1e9 / speed['median']:,.0f}",
                f"{point['compile_seconds']:.1f}",
                f"{(point['memory'] or 0) / 2**20:.1f}",
                f"{point['episodes'] / games:.2f}",
                f"{point['dropped_spawns']} in {point['episodes']:,}",
            )
        )
    return markdown((*headings, "ended, a game and run", "spawns dropped in games"), rows)


def speeds_table(found: Any) -> list[str]:
    rows = [
        (name, spread(part["steps_per_second"]), f"{part['compile_seconds']:.1f}")
        for name, part in found.items()
        if isinstance(part, dict) and "steps_per_second" in part
    ]
    lines = markdown(("", "steps/s", "compile s"), rows)
    if "ratio" in found:
        each = found["ratios"]
        pairs = f"{len(each['pairs'])} neighbouring runs, {each['min']:.3f} to {each['max']:.3f}"
        lines += ["", f"Ratio: {found['ratio']:.3f} (median of {pairs})."]
    if "peak_memory_bytes" in found:
        lines += ["", f"Peak memory: {found['peak_memory_bytes'] / 2**20:,.0f} MiB."]
    return lines


def profile_table(found: Any) -> list[str]:
    counts = ("instructions", "fusions", "loops", "copies")
    rows = [
        (
            part["part"] if part["in_sum"] else f"*{part['part']}*",
            spread(part["nanoseconds"]),
            f"{part['compile_seconds']:.1f}",
            *(f"{part[count]:,}" for count in counts),
        )
        for part in found["parts"]
    ]
    rows.append(("sum of the parts of a step", f"{found['sum']:,.0f}", "", "", "", "", ""))
    return markdown(("part", "ns a game", "compile s", *counts), rows)


def memory_table(found: Any) -> list[str]:
    rows = [
        (f"`{row['measure']}`", f"{row['temporary_bytes'] / 2**20:.1f}", f"{row['seconds']:.3f}")
        for row in found["rows"]
    ]
    return markdown(("measure", "temporary MiB", "seconds (median)"), rows)


def precision_table(rows: Any) -> list[str]:
    return markdown(
        ("network", "precision", "ms a gradient", "compile s"),
        (
            (
                row["network"],
                row["precision"],
                spread(row["seconds"], 1000),
                f"{row['compile_seconds']:.1f}",
            )
            for row in rows
        ),
    )


def communication_table(rows: Any) -> list[str]:
    def mebibytes(count: float) -> str:
        return f"{count / 2**20:.2f} MiB"

    return markdown(
        ("mesh", "operations", "sent by a device", "gathered parameters"),
        (
            (
                f"`{row['mesh']}`",
                row["operations"],
                mebibytes(row["sent_bytes"]),
                mebibytes(row["by_kind"].get("all-gather", 0)),
            )
            for row in rows
        ),
    )


def startup_table(found: Any) -> list[str]:
    parts = [(each["part"], f"{each['cold']:.2f}", f"{each['warm']:.2f}") for each in found["rows"]]
    return markdown(("part", "cold, s", "from the cache, s"), parts)


def options_table(found: Any) -> list[str]:
    return markdown(
        ("games", "options", "steps/s", "of XLA's own", "compile s"),
        (
            (
                f"{each['num_envs']:,}",
                row["options"],
                spread(row["steps_per_second"]),
                f"{row['ratio']:.3f}",
                f"{row['compile_seconds']:.1f}",
            )
            for each in found
            for row in each["rows"]
        ),
    )


def footprint_table(found: Any) -> list[str]:
    update = f"an update of {found['games']:,} games x {found['steps']} steps"
    rows = (
        (f"{found['held']:,} games with their histories", found["held_bytes"]),
        (f"{update}, by the compiler's figure", found["compiled_bytes"]),
        (f"{update}, peak of the process", found["process_bytes"]),
    )
    return markdown(("", "GiB"), ((what, f"{size / 2**30:.2f}") for what, size in rows))


def gpu_program_table(rows: Any) -> list[str]:
    own = ("instructions", "fusions", "loops", "copies")
    counts = ("num_envs", "kernels", "asking_loops", *own, "copies_of_history")
    return markdown(
        ("games", "kernels", "loops that ask", *own, "copies of the history", "MiB", "compile s"),
        (
            (
                *(f"{row[count]:,}" for count in counts),
                f"{row['memory'] / 2**20:,.0f}",
                f"{row['compile_seconds']:.1f}",
            )
            for row in rows
        ),
    )


def peers_table(found: Any) -> list[str]:
    def ratio(figures: dict[str, float]) -> str:
        return f"{figures['median']:.2f} ({figures['min']:.2f} to {figures['max']:.2f})"

    first = found["rows"][0]["player"]
    seeds = ", ".join(found["rows"][0]["returns"])
    lines = markdown(
        (
            *("", "steps/s", "steps/s of CPU time", f"{first} is faster by", "by CPU time"),
            *("compile s", f"return after {found['steps']:,} steps, seeds {seeds}"),
        ),
        (
            (
                *(row["player"], spread(row["clock"]), spread(row["cpu"])),
                *(ratio(row["clock_ratio"]), ratio(row["cpu_ratio"])),
                f"{row['compile_seconds']:.0f}",
                ", ".join(f"{each:.1f}" for each in row["returns"].values()),
            )
            for row in found["rows"]
        ),
    )
    packages = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return [*lines, "", f"With {packages}."]


BENCH = ("-m", "hackmatrix_rl", "bench", "--repeats", "9")
# A common setup of PPO, with a network of two layers on the whole observation.
WELL_KNOWN = (
    *("--network", "mlp", "--width", "256", "--depth", "2", "--num-envs", "256"),
    *("--num-steps", "128", "--update-epochs", "4", "--num-minibatches", "4"),
)
BENCHMARKS = {
    "environment": Benchmark(("benchmarks/environment.py", "--repeats", "9"), environment_table),
    "pgx": Benchmark((*BENCH, "--compare", "pgx"), speeds_table),
    "training": Benchmark(BENCH, speeds_table),
    "training-mlp": Benchmark((*BENCH, *WELL_KNOWN), speeds_table),
    "peers": Benchmark(("benchmarks/peers.py",), peers_table, "rejax"),
    "startup": Benchmark(("benchmarks/startup.py",), startup_table),
    "compiler-options": Benchmark(
        ("benchmarks/compiler_options.py", "--games", "64", "1024"), options_table
    ),
    "footprint": Benchmark(("benchmarks/footprint.py",), footprint_table),
    "profile": Benchmark(("benchmarks/profile_env.py",), profile_table),
    "precision": Benchmark(("benchmarks/precision.py",), precision_table),
    "memory": Benchmark(("benchmarks/memory.py",), memory_table),
    "communication": Benchmark(("benchmarks/communication.py",), communication_table),
    "gpu-program": Benchmark(
        ("benchmarks/gpu_program.py",), gpu_program_table, "jax_plugins.xla_cuda13"
    ),
}


def markers(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- /{name} -->"


def replaced(text: str, name: str, lines: Sequence[str]) -> str:
    """Replaces the lines between the markers of a name in a page.

    Raises:
        ValueError: the page has not exactly one pair of markers in order.
    """
    first, last = markers(name)
    before, found, rest = text.partition(first)
    _, ended, after = rest.partition(last)
    if not (found and ended) or first in rest or last in after:
        raise ValueError(f"there must be one {first} with one {last} behind it")
    return "\n".join([before + first, *lines, last]) + after


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def machine() -> str:
    """The processor, its cores, and the memory."""
    model = platform.processor() or platform.machine()
    memory = ""
    if Path("/proc/cpuinfo").exists():
        names = [
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
        total = Path("/proc/meminfo").read_text().split()[1]
        memory = f", {int(total) / 2**20:.0f} GiB"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} core{'s' * (cores != 1)}{memory}, {platform.system()}"


def provenance(seconds: float) -> str:
    """The provenance of a table: time, command, versions, machine, and duration."""
    # Here, since another script that imports this one sets what JAX reads at its import.
    from hackmatrix_rl.runs import versions
    from hackmatrix_rl.runs._versions import commit

    found = versions()
    packages = ", ".join(f"{name} {found[name]}" for name in SHOWN if name in found)
    made = commit(FOLDER.parent / "hackmatrix_rl") or "unknown"
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {made.replace(made[:40], made[:12])}; {machine()}; "
        f"{packages}. Median (smallest to largest); took {seconds / 60:.0f} min in all."
    )


def block(benchmark: Benchmark, figures: Any, seconds: float) -> list[str]:
    """The lines between the markers."""
    return [
        "```bash",
        " ".join(("python", *benchmark.command)),
        "```",
        "",
        provenance(seconds),
        "",
        *benchmark.table(figures),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--json", type=Path, help="folder for the figures as JSON")
    parser.add_argument("--results", type=Path, default=FOLDER / "RESULTS.md")
    options = parser.parse_args()
    for name in options.only:  # before anything long starts
        try:
            replaced(options.results.read_text(), name, [])
        except (OSError, ValueError) as error:
            parser.error(f"--results {options.results}: {error}")
    folder = options.json or Path(tempfile.mkdtemp(prefix="benchmarks_"))
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.only:
        benchmark, file = BENCHMARKS[name], folder.absolute() / f"{name}.json"
        if not installed(benchmark.needs):
            print(f"\n{name}: left out, {benchmark.needs} is not installed")
            continue
        print(f"\n{name}: python {' '.join(benchmark.command)}", flush=True)
        began = time.perf_counter()
        command = [sys.executable, *benchmark.command, "--json", str(file)]
        if subprocess.run(command, cwd=FOLDER.parent, check=False).returncode:
            failed.append(name)
            continue
        lines = block(benchmark, json.loads(file.read_text()), time.perf_counter() - began)
        text = replaced(options.results.read_text(), name, lines)
        options.results.write_text(text)
    print(f"\nFigures as JSON: {folder}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
