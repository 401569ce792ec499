"""Everything that is worth measuring on an accelerator, in the nine minutes that one is lent.

    python benchmarks/lent_accelerator.py --out FOLDER            # on the machine with it
    python benchmarks/lent_accelerator.py --out FOLDER --small    # a rehearsal on a CPU

The parts, in this order:

- `bench`: `hackmatrix-rl bench --full` with 4,096 and 65,536 games.
- `conformance`: the recordings of the original, played on the device
  (`tests/env/test_conformance_through_step.py`); it needs pytest.
- `updates`: updates of PPO in bf16 and f32, beside what the device's compiler says of them: memory,
  and kernels or estimated cycles.
- `precision`: `hackmatrix-rl compare --precision`, with its verdict. It trains for as many steps
  as fit, by the speeds that `bench` found.
- `search`: `pretrained` alone, and with a search in trees before each move.
- `self-play`: `benchmarks/self_play.py` at n=6 and n=14.

Each is a process of its own with a limit, which stops it; a part that needs less leaves its time to
the next ones. FOLDER has a JSON file for each part, the output of all in `log.txt`, and in
`results.md` their tables for RESULTS.md. They are written after each part, and most JSON files
within it: what was measured stays when the machine vanishes.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from all import markdown, provenance, spread

ROOT = Path(__file__).parents[1]
MINUTES = 9.0
STARTING = 15.0
"""Seconds that are not of any part: what the device is, and the ends of stopped parts."""
ENDING = 5.0
"""Seconds that a stopped part has to end by itself."""
PACKAGE = (sys.executable, "-m", "hackmatrix_rl")
GAMES, SMALL_GAMES = 16_384, 64
SEEDS = 3
COMPARED = 4_000_000
"""Steps of each training of `precision` where `bench` found no speed."""
TRAINING_SHARE = 0.5
"""Of the time of `precision`; the rest compiles and plays."""
SMALL = {
    **{"preset": "debug", "num_envs": SMALL_GAMES, "num_steps": 4, "num_minibatches": 2},
    **{"update_epochs": 1, "width": 8, "updates_per_dispatch": 1, "history": 4},
}
"""Settings of PPO in a rehearsal."""


class Part(NamedTuple):
    """A measurement: what it runs, its limit in seconds, and how it becomes a table.

    `command` gets its JSON file, whether it is small, and the folder with the parts before it.
    """

    title: str
    command: Callable[[Path, bool, Path], Sequence[str]]
    seconds: float
    table: Callable[[Any], list[str]]


def bench_command(file: Path, small: bool, folder: Path) -> list[str]:
    sizes = ["--repeats", "5", "--sizes", "4096,65536"]
    if small:
        sizes = ["--repeats", "1", "--sizes", "16,64"]
        sizes += [word for name, value in SMALL.items() for word in (_flag(name), str(value))]
    return [*PACKAGE, "bench", "--algorithm", "ppo", "--full", *sizes, "--json", str(file)]


def precision_command(file: Path, small: bool, folder: Path) -> list[str]:
    settings = {"algorithm": "ppo", **(SMALL if small else {})}
    toml = folder / "precision.toml"
    toml.write_text("".join(f"{name} = {json.dumps(each)}\n" for name, each in settings.items()))
    games = "8" if small else "1000"
    steps = 1024 if small else compared_steps(folder, PARTS["precision"].seconds)
    return [
        *(*PACKAGE, "compare", "--precision", str(toml), "--json", "--episodes", games),
        *("--seeds", str(SEEDS), "--total-timesteps", str(steps)),
    ]


def compared_steps(folder: Path, seconds: float) -> int:
    """Steps that fit into the time of `precision`, by the slower training that `bench` found."""
    found = read(folder / "bench.json") or {}
    speeds = [
        part["steps_per_second"]["median"]
        for part in found.get("parts", ())
        if part["part"] == "train" and part["failure"] is None
    ]
    if not speeds:
        return COMPARED
    return round(TRAINING_SHARE * seconds * min(speeds) / (2 * SEEDS))


def self_play_command(file: Path, small: bool, folder: Path) -> list[str]:
    sizes = ["--at-once", "256", "1024", "--large-games", "512"]
    if small:
        sizes = ["--games", "8", "--at-once", "8", "--simulations", "4", "--width", "8"]
        sizes += ["--large-games", "4", "--large-moves", "2"]
    script = str(ROOT / "benchmarks" / "self_play.py")
    return [sys.executable, script, "games", "large", *sizes, "--json", str(file)]


def own(name: str) -> Callable[[Path, bool, Path], list[str]]:
    """The command for a function of this file."""

    def command(file: Path, small: bool, folder: Path) -> list[str]:
        given = [sys.executable, __file__, "--part", name, "--out", str(file)]
        return [*given, "--small"] if small else given

    return command


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def conformance(file: Path, small: bool) -> None:
    """Plays the recordings on this device, and counts the tests."""
    # The tests choose the CPU, and few optimizations, where nothing is said.
    os.environ |= {"JAX_PLATFORMS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    import pytest

    found: dict[str, Any] = {"passed": 0, "failed": []}

    class Count:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            import jax  # not before the tests have said how

            first = jax.devices()[0]
            found["device"] = f"{first.platform} ({first.device_kind})"
            # Each kind of device computes the rules in its own way: a parameter of these tests.
            items[:] = [item for item in items if item.name.endswith(f"[{first.platform}]")]

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                found["failed"].append(report.nodeid.partition("::")[2])
            elif report.when == "call" and report.passed:
                found["passed"] += 1
            save(file, found)

    os.chdir(ROOT)
    tests = "tests/env/test_conformance_through_step.py"
    options = ["-q", "-p", "no:cacheprovider", "--nightly", "1/1"]
    sys.exit(int(pytest.main([*options, tests], plugins=[Count()])))


def updates(file: Path, small: bool) -> None:
    """Times updates of PPO in two precisions, beside what the compiler says of them."""
    import jax

    from hackmatrix_rl.runs import config_here, run_keys
    from hackmatrix_rl.runs._compose import compose
    from hackmatrix_rl.runs._plan import make_plan
    from hackmatrix_rl.system import enable_compilation_cache, peak_memory

    enable_compilation_cache()  # the trainer's program is that of the plan
    rows: list[dict[str, Any]] = []
    # bf16 first: it needs less, and the peak is that of the process.
    for precision in ("bf16", "f32"):
        settings = {"algorithm": "ppo", "num_envs": GAMES, "precision": precision}
        config = config_here(None, settings | (SMALL if small else {}))
        network_key, key = run_keys(0)
        trainer = compose(config, key=network_key)
        plan = make_plan(config, trainer)
        trainer.start(key)
        trainer.compile()
        count = trainer.updates_per_dispatch
        trainer.dispatch(count)
        runs = [trainer.dispatch(count) for _ in range(2 if small else 5)]
        seconds = [each.seconds / count for each in runs]
        rows.append(
            {
                "precision": precision,
                "games": config.num_envs,
                "steps": trainer.batch_size,
                "network": plan.network,
                "seconds": _span(seconds),
                "steps_per_second": _span([each.steps_per_second for each in runs]),
                "program_bytes": plan.program_bytes,
                "peak_bytes": peak_memory(),
                "cycles": plan.cycles,
                "kernels": plan.launches and plan.launches.kernels,
                "asking_loops": plan.launches and plan.launches.asking_loops,
                "compile_seconds": plan.compile_seconds,
            }
        )
        del trainer
        jax.clear_caches()
        save(file, rows)


def search(file: Path, small: bool) -> None:
    """Times `pretrained` alone and with a search, in whole games."""
    import jax
    import numpy as np

    import hackmatrix_rl as hm
    from hackmatrix_rl.system import enable_compilation_cache

    enable_compilation_cache()  # a search takes longest to compile: a second try may be short
    run = hm.load("pretrained")
    agent, environment = run.agent(), run.environment
    games, longest = (8, 8) if small else (1024, 400)
    rows: list[dict[str, Any]] = []
    for simulations in (0, 2 if small else 32):
        player = hm.Searcher(agent, environment, simulations) if simulations else agent
        began, compiled = time.perf_counter(), []

        def note(finished: int, whole: int, compiled: list[float] = compiled) -> None:
            compiled.append(time.perf_counter())

        played = hm.evaluate(
            player,
            environment,
            **{"episodes": games, "num_envs": games, "max_steps": longest},
            key=jax.random.key(20_261_126),
            on_progress=note,
        )
        seconds, moves = time.perf_counter() - compiled[0], int(np.sum(played.values["length"]))
        rows.append(
            {
                "simulations": simulations,
                "games": games,
                "moves": moves,
                "seconds": seconds,
                "moves_per_second": moves / seconds,
                "longest": longest,
                "unfinished": played.unfinished,
                "stage": played.estimate("stage").as_dict(),
                "compile_seconds": compiled[0] - began,
            }
        )
        save(file, rows)


def _span(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def bench_table(found: Any) -> list[str]:
    rows = []
    for part in found["parts"]:
        speed = part.get("steps_per_second")
        rows.append(
            (
                " ".join(filter(None, (part["part"], part["precision"]))),
                f"{part['num_envs']:,}",
                part["failure"] or spread(speed),
                f"{part['compile_seconds']:.1f}" if speed else "",
                _mebibytes(part.get("memory")),
            )
        )
    lines = markdown(("", "games", "steps/s", "compile s", "MiB a device, by the compiler"), rows)
    return lines if found["complete"] else [*lines, "", "Stopped before its end."]


def conformance_table(found: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in found["failed"])
    failed = f", and these failed: {names}" if names else ""
    return [f"{found['passed']} tests passed on {found['device']}{failed}."]


def updates_table(rows: Any) -> list[str]:
    """What was measured, and what the compiler had said: nothing about speed on a CPU."""

    def says(row: Mapping[str, Any]) -> str:
        if row["cycles"] is not None:
            at = row["cycles"] / row["seconds"]["median"] / 1e6
            return f"at least {row['cycles']:,} cycles: {at:,.0f} million in a second of these"
        if row["kernels"] is not None:
            each = row["seconds"]["median"] / row["kernels"] * 1e6
            return (
                f"at least {row['kernels']:,} kernels: {each:.1f} microseconds each; "
                f"{row['asking_loops']} loops ask the host"
            )
        return "nothing"

    headings = ("precision", "games", "steps/s", "ms an update", "the compiler of an update")
    return markdown(
        (*headings, "MiB, by the compiler", "MiB at most, in the device", "compile s"),
        (
            (
                *(row["precision"], f"{row['games']:,}", spread(row["steps_per_second"])),
                *(spread(row["seconds"], 1000), says(row), _mebibytes(row["program_bytes"])),
                *(_mebibytes(row["peak_bytes"]), f"{row['compile_seconds']:.1f}"),
            )
            for row in rows
        ),
    )


def precision_table(found: Any) -> list[str]:
    def interval(estimate: Mapping[str, Any]) -> str:
        return f"{estimate['mean']:.3f} ({', '.join(f'{end:.3f}' for end in estimate['ci95'])})"

    lines = markdown(
        ("", "steps/s (median)", "MiB, by the compiler", "compile s", "skipped", "return"),
        (
            (
                *(side["name"], f"{side['steps_per_second']:,.0f}"),
                *(_mebibytes(side["program_memory_bytes"]), f"{side['compile_seconds']:.1f}"),
                *(side["skipped"], interval(side["return"])),
            )
            for side in (found["baseline"], found["candidate"])
        ),
    )
    verdict = f"{found['verdict']}: {found['reason']}; difference {interval(found['difference'])}"
    return [*lines, "", f"{verdict}, {found['seeds']} seeds."]


def search_table(rows: Any) -> list[str]:
    lines = markdown(
        ("simulations", "games at once", "moves/s", "moves", "stage", "compile s"),
        (
            (
                *(row["simulations"], f"{row['games']:,}", f"{row['moves_per_second']:,.0f}"),
                *(f"{row['moves']:,}", f"{row['stage']['mean']:.2f}"),
                f"{row['compile_seconds']:.1f}",
            )
            for row in rows
        ),
    )
    return [*lines, "", f"Games end after {rows[0]['longest']:,} moves at the latest."]


def self_play_table(found: Any) -> list[str]:
    names = ("board", "games at once", "moves", "seconds", "searches/s", "simulations/s")
    rows = [*found["games"], found["large"], found["iteration"]]
    cells = [[row[name] for name in names] for row in rows]
    cells[-1][0] = f"{cells[-1][0]}, with learning"
    return markdown(names, cells)


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:,.0f}"


PARTS = {
    "bench": Part("Speed by number of games", bench_command, 150, bench_table),
    "conformance": Part("The rules on the device", own("conformance"), 60, conformance_table),
    "updates": Part("Updates of PPO", own("updates"), 75, updates_table),
    "precision": Part("PPO in f32 and bf16", precision_command, 90, precision_table),
    "search": Part("Search in trees", own("search"), 90, search_table),
    "self-play": Part("Self-play", self_play_command, 60, self_play_table),
}
OWN = {"conformance": conformance, "updates": updates, "search": search}
PRINTS_JSON = ("precision",)
"""Parts whose command prints its JSON instead of writing it."""


def save(file: Path, found: Any) -> None:
    """Writes JSON as a whole: a reader finds the old file or the new one."""
    draft = file.with_suffix(".part")
    draft.write_text(json.dumps(found, indent=2) + "\n")
    draft.replace(file)


def read(file: Path) -> Any:
    """The JSON of a part; `None` if there is none, or no whole one."""
    with contextlib.suppress(OSError, json.JSONDecodeError):
        return json.loads(file.read_text())
    return None


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends a process with all that it started when the body is left, whatever happens there."""
    try:
        yield
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, sign)
                process.wait(ENDING)


def limited(command: Sequence[str], seconds: float, log: TextIO, out: Path | None) -> str:
    """Runs a command for so many seconds at most, and says how it ended."""
    where = contextlib.nullcontext(log) if out is None else out.open("w")
    with where as printed:
        process = subprocess.Popen(
            command,
            **{"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": printed, "stderr": log},
            start_new_session=True,  # so that what it started ends with it
        )
        with ended(process):
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return f"stopped after {seconds:.0f} s"
    # `compare` answers with its status, too.
    return "done" if status in (0, 10, 11) else f"ended with status {status}"


def device_here() -> str:
    """What JAX computes on, asked by a process of its own: this one must not hold the device."""
    code = "from hackmatrix_rl.system import describe_device\nprint(describe_device())"
    command = [sys.executable, "-c", code]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if asked.returncode:
        sys.exit(f"JAX does not start here: {asked.stderr.strip().splitlines()[-1]}")
    return asked.stdout.strip().splitlines()[-1]


def section(name: str, how: str, command: Sequence[str], seconds: float, file: Path) -> list[str]:
    """What `results.md` says of a part that has ended."""
    found = read(file)
    try:
        table = ["Nothing was measured."] if found is None else PARTS[name].table(found)
    except (KeyError, TypeError, IndexError) as error:
        table = [f"No table, see {file.name}: {type(error).__name__}: {error}."]
    shown = " ".join(command).replace(sys.executable, "python").replace(f"{ROOT}/", "")
    return [
        *(f"## {PARTS[name].title}", "", "```bash", shown, "```", ""),
        *(f"{how[0].upper()}{how[1:]}; {provenance(seconds)}", "", *table, ""),
    ]


def measure(names: Sequence[str], folder: Path, *, minutes: float, small: bool) -> bool:
    """Runs parts one after another, and says whether all went well.

    A part may take its own limit and what the parts before it have left over. Where `minutes` are
    other than the nine of `PARTS`, all limits are in proportion.
    """
    began = time.monotonic()
    device = device_here()
    print(f"{device}; {minutes:g} minutes for {', '.join(names)}", flush=True)
    if device.startswith("cpu") and not small:
        sys.exit("JAX sees no accelerator here. Use --small for a rehearsal on the CPU.")
    versions = ", ".join(f"{each} {importlib.metadata.version(each)}" for each in ("jax", "jaxlib"))
    lines = [f"# {device}", "", f"With {versions}.{' A rehearsal: no figures.' * small}", ""]
    whole = sum(PARTS[name].seconds for name in names)
    spendable = 60 * minutes - STARTING
    going_well, later = True, whole
    for name in names:
        part, file = PARTS[name], folder / f"{name}.json"
        later -= part.seconds
        left = spendable - (time.monotonic() - began) - later / whole * spendable
        command = part.command(file, small, folder)
        print(f"{name}: {left:.0f} s at most", flush=True)
        started = time.monotonic()
        if left < 1:
            how = "no time was left"
        else:
            with (folder / "log.txt").open("a") as log:
                print(f"\n--- {name}: {' '.join(command)}", file=log, flush=True)
                how = limited(command, left, log, file if name in PRINTS_JSON else None)
        seconds = time.monotonic() - started
        print(f"{name}: {how}, {seconds:.0f} s", flush=True)
        going_well &= how == "done"
        lines += section(name, how, command, seconds, file)
        (folder / "results.md").write_text("\n".join(lines))
    return going_well


def main() -> None:
    """Measures, or is one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a new or empty folder for what is found")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"default: {MINUTES:g}")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="a rehearsal, with tiny sizes")
    parser.add_argument("--part", choices=OWN, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        OWN[given.part](given.out, given.small)
        return
    if not given.minutes * 60 > STARTING:
        parser.error(f"--minutes {given.minutes:g}: use more than {STARTING / 60:g}")
    folder = given.out or Path(tempfile.mkdtemp(prefix="lent_accelerator_"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        parser.error(f"--out {folder}: exists already; give a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.absolute()
    went_well = measure(given.only, folder, minutes=given.minutes, small=given.small)
    print(f"{folder / 'results.md'}")
    sys.exit(0 if went_well else 1)


if __name__ == "__main__":
    main()
