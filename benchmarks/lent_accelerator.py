"""All measurements for an accelerator that is available for nine minutes.

    python benchmarks/lent_accelerator.py --out FOLDER            # on the machine with it
    python benchmarks/lent_accelerator.py --out FOLDER --small    # a rehearsal on a CPU

The parts:

- `conformance`: the recordings of the original, played on the device
  (`tests/env/test_conformance_through_step.py`); it needs pytest.
- `environment`: random play by number of games, from stage 1 and from a late stage.
- `training`: updates of PPO in bf16 and f32, with the figures of the device's compiler: memory,
  and kernels or estimated cycles.
- `search`: `pretrained` alone, and with a tree search before each move.
- `self-play`: `benchmarks/self_play.py` at n=6 and n=14.
- `precision`: `hackmatrix-rl compare --precision`, with its verdict. It trains for as many steps
  as fit, by the speeds that `training` measured.

Compiling takes most of the time. So all processes start together, compile in parallel (and play the
recordings), and then measure sequentially, alone. Only `self-play` and `precision` start in their
turn; the first of them has compiled before. Each part has a time limit and is stopped there; the
following parts get its unused time. FOLDER has a JSON file for each process, the output of all in
`log.txt`, and in `results.md` the tables for RESULTS.md. They are written after each part, so
results survive the loss of the machine.
"""

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from all import markdown, provenance, spread

ROOT = Path(__file__).parents[1]
MINUTES = 9.0
STARTING = 15.0
"""Seconds outside of all parts: identifying the device, and ending stopped parts."""
COMPILING = 190.0
"""Most seconds until all have compiled, in parallel on 16 cores."""
ENDING = 5.0
"""Seconds in which a stopped process must end by itself."""
PACKAGE = (sys.executable, "-m", "hackmatrix_rl")
SIZES, SMALL_SIZES = (4096, 65_536, 262_144), (16,)
TRAINED = (("bf16", 4096), ("bf16", 16_384), ("bf16", 65_536), ("f32", 16_384), ("f32", 65_536))
SMALL_GAMES = 64
REPEATS = 5
SEEDS = 3
COMPARED = 4_000_000
"""Steps of each training of `precision` if `training` measured no speed."""
TRAINING_SHARE = 0.5
"""The share of the time of `precision` for training; the rest compiles and plays."""
SMALL = {
    **{"preset": "debug", "num_envs": SMALL_GAMES, "num_steps": 4, "num_minibatches": 2},
    **{"update_epochs": 1, "width": 8, "updates_per_dispatch": 1, "history": 4},
}
"""Settings of PPO in a rehearsal."""
GATE = "LENT_GATE"
"""Environment variable: a path. The file PATH.ready says that a process has compiled, PATH.go that
it may measure."""

Command = Callable[[Path, bool, Path], Sequence[str]]
"""Gets the JSON file to write, whether it is small, and the folder with what was found before."""


class Part(NamedTuple):
    """A measurement: its processes by name, its limit in seconds, and how it becomes a table.

    `table` gets what each process wrote. `start` is when they start: `"first"`, to compile and wait
    for their turns; `"alongside"`, while the others compile; `"prepared"`, in their turn, after a
    run alongside that fills the compilation cache; `"last"`, in their turn.
    """

    title: str
    commands: Callable[[bool], Mapping[str, Command]]
    seconds: float
    table: Callable[[list[Any]], list[str]]
    start: str = "first"


def wait_for_turn() -> None:
    """A process calls this when it has compiled; returns when it has the device to itself."""
    gate = os.environ.get(GATE)
    if gate is None:
        return
    Path(f"{gate}.ready").touch()
    while not Path(f"{gate}.go").exists():
        time.sleep(0.05)


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
    """The steps that fit into the time of `precision`, by the speed of the slowest training."""
    found = filter(None, map(read, folder.glob("training-*.json")))
    speeds = [row["steps_per_second"]["median"] for row in found]
    return round(TRAINING_SHARE * seconds * min(speeds) / (2 * SEEDS)) if speeds else COMPARED


def self_play_command(file: Path, small: bool, folder: Path) -> list[str]:
    sizes = ["--at-once", "256", "1024", "--large-games", "512"]
    if small:
        sizes = ["--games", "8", "--at-once", "8", "--simulations", "4", "--width", "8"]
        sizes += ["--large-games", "4", "--large-moves", "2"]
    script = str(ROOT / "benchmarks" / "self_play.py")
    return [sys.executable, script, "games", "large", *sizes, "--json", str(file)]


def own(name: str, *case: object) -> Command:
    """The command for a function of this file."""

    def command(file: Path, small: bool, folder: Path) -> list[str]:
        given = [sys.executable, __file__, "--part", name, *map(str, case), "--out", str(file)]
        return [*given, "--small"] if small else given

    return command


def environment_commands(small: bool) -> Mapping[str, Command]:
    sizes = SMALL_SIZES if small else SIZES
    return {f"environment-{games}": own("environment", games) for games in sizes}


def training_commands(small: bool) -> Mapping[str, Command]:
    cases = [("bf16", SMALL_GAMES)] if small else TRAINED
    return {f"training-{how}-{games}": own("training", how, games) for how, games in cases}


def search_commands(small: bool) -> Mapping[str, Command]:
    return {f"search-{count}": own("search", count) for count in (0, 2 if small else 32)}


def one_command(name: str, command: Command) -> Callable[[bool], Mapping[str, Command]]:
    return lambda small: {name: command}


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


def environment(file: Path, small: bool, games: str) -> None:
    """Times random play of a number of games, as `bench --full` does."""
    from hackmatrix_rl.cli.bench._full_benchmark import SpeedCurve
    from hackmatrix_rl.runs import config_here, make_mesh
    from hackmatrix_rl.runs.config import TrainConfig
    from hackmatrix_rl.system import enable_compilation_cache

    enable_compilation_cache()
    config = config_here(None, {"algorithm": "ppo", "num_envs": int(games)})
    assert isinstance(config, TrainConfig)
    curve = SpeedCurve(
        config.environment(), int(games), mesh=make_mesh(config), repeats=1 if small else REPEATS
    )
    save(file, [part.as_dict() for part in curve.parts(int(games), compiled=wait_for_turn)])


def training(file: Path, small: bool, precision: str, games: str) -> None:
    """Times updates of PPO, with the compiler's figures."""
    from hackmatrix_rl.runs import config_here, training_keys
    from hackmatrix_rl.runs._compose import compose
    from hackmatrix_rl.runs._plan import make_plan
    from hackmatrix_rl.system import enable_compilation_cache, peak_memory

    enable_compilation_cache()  # the trainer's program is that of the plan
    settings = {"algorithm": "ppo", "precision": precision, **(SMALL if small else {})}
    config = config_here(None, settings | {"num_envs": int(games)})
    trainer = compose(config)
    plan = make_plan(config, trainer)
    trainer.start(training_keys(config))
    trainer.compile()
    wait_for_turn()
    count = trainer.updates_per_dispatch
    trainer.dispatch(count)
    runs = [trainer.dispatch(count) for _ in range(2 if small else REPEATS)]
    row = {
        "precision": precision,
        "games": config.num_envs,
        "minibatches": trainer.algorithm.sizes.num_minibatches,
        "steps": trainer.batch_size,
        "network": plan.network,
        "seconds": _span([each.seconds / count for each in runs]),
        "steps_per_second": _span([each.steps_per_second for each in runs]),
        "program_bytes": plan.program_bytes,
        "peak_bytes": peak_memory(),
        "cycles": plan.cycles,
        "kernels": plan.launches and plan.launches.kernels,
        "asking_loops": plan.launches and plan.launches.asking_loops,
        "compile_seconds": plan.compile_seconds,
    }
    save(file, row)


def search(file: Path, small: bool, simulations: str) -> None:
    """Times `pretrained` with a search of a number of simulations (0: alone), in full games."""
    import jax
    import numpy as np

    import hackmatrix_rl as hm
    from hackmatrix_rl.system import enable_compilation_cache

    enable_compilation_cache()
    run = hm.load("pretrained")
    agent, environment = run.agent(), run.environment
    games, longest = (8, 8) if small else (1024, 400)
    player = hm.Searcher(agent, environment, int(simulations)) if int(simulations) else agent
    began, compiled = time.perf_counter(), []
    after: list[float] = []

    def note(finished: int, whole: int) -> None:
        if not compiled:
            compiled.append(time.perf_counter())
            wait_for_turn()
            after.append(time.perf_counter())

    played = hm.evaluate(
        player,
        environment,
        **{"episodes": games, "num_envs": games, "max_steps": longest},
        key=jax.random.key(20_261_126),
        on_progress=note,
    )
    seconds, moves = time.perf_counter() - after[0], int(np.sum(played.values["length"]))
    row = {
        "simulations": int(simulations),
        "games": games,
        "moves": moves,
        "seconds": seconds,
        "moves_per_second": moves / seconds,
        "longest": longest,
        "unfinished": played.unfinished,
        "stage": played.estimate("stage").as_dict(),
        "compile_seconds": compiled[0] - began,
    }
    save(file, row)


def _span(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def environment_table(found: list[Any]) -> list[str]:
    rows = [
        (
            f"{part['num_envs']:,}",
            part["stage"],
            spread(part["steps_per_second"]),
            f"{part['compile_seconds']:.1f}",
            _mebibytes(part["memory"]),
        )
        for parts in found
        for part in parts
    ]
    return markdown(
        ("games", "from stage", "steps/s", "compile s", "MiB a device, by the compiler"), rows
    )


def conformance_table(rows: list[Any]) -> list[str]:
    (found,) = rows
    names = ", ".join(f"`{name}`" for name in found["failed"])
    failed = f", and these failed: {names}" if names else ""
    return [f"{found['passed']} tests passed on {found['device']}{failed}."]


def training_table(rows: list[Any]) -> list[str]:
    """Measurements and the compiler's figures; a CPU has no figures about speed."""

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

    headings = ("precision", "games", "minibatches", "steps/s", "ms an update")
    return markdown(
        (
            *(*headings, "the compiler of an update", "MiB, by the compiler"),
            *("MiB at most, in the device", "compile s"),
        ),
        (
            (
                *(row["precision"], f"{row['games']:,}", row["minibatches"]),
                spread(row["steps_per_second"]),
                *(spread(row["seconds"], 1000), says(row), _mebibytes(row["program_bytes"])),
                *(_mebibytes(row["peak_bytes"]), f"{row['compile_seconds']:.1f}"),
            )
            for row in rows
        ),
    )


def precision_table(rows: list[Any]) -> list[str]:
    (found,) = rows

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


def search_table(rows: list[Any]) -> list[str]:
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


def self_play_table(found_rows: list[Any]) -> list[str]:
    (found,) = found_rows
    names = ("board", "games at once", "moves", "seconds", "searches/s", "simulations/s")
    rows = [*found["games"], found["large"], found["iteration"]]
    cells = [[row[name] for name in names] for row in rows]
    cells[-1][0] = f"{cells[-1][0]}, with learning"
    return markdown(names, cells)


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:,.0f}"


PARTS = {
    "conformance": Part(
        "The rules on the device", one_command("conformance", own("conformance")), 60,
        conformance_table, "alongside",
    ),
    "environment": Part("Random play", environment_commands, 30, environment_table),
    "training": Part("Updates of PPO", training_commands, 60, training_table),
    "search": Part("Search in trees", search_commands, 50, search_table),
    "self-play": Part(
        "Self-play", one_command("self-play", self_play_command), 60, self_play_table, "prepared"
    ),
    "precision": Part(
        "PPO in f32 and bf16", one_command("precision", precision_command), 75, precision_table,
        "last",
    ),
}  # fmt: skip
OWN: dict[str, Callable[..., None]] = {
    "conformance": conformance, "environment": environment, "training": training, "search": search,
}  # fmt: skip
PRINTS_JSON = ("precision",)
"""Processes whose command prints its JSON instead of writing it."""


def save(file: Path, found: Any) -> None:
    """Writes JSON atomically: a reader finds the old file or the new one."""
    draft = file.with_suffix(".part")
    draft.write_text(json.dumps(found, indent=2) + "\n")
    draft.replace(file)


def read(file: Path) -> Any:
    """The JSON of a part; `None` if it does not exist or is incomplete."""
    with contextlib.suppress(OSError, json.JSONDecodeError):
        return json.loads(file.read_text())
    return None


class Process:
    """A process with its JSON file, in a separate process group, which ends with it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        """Starts it; `wait_for_turn` in it waits for `measure`."""
        self.name, self._gate = name, folder / name
        with contextlib.ExitStack() as stack:
            log = stack.enter_context((folder / "log.txt").open("a"))
            print(f"\n--- {name}: {' '.join(command)}", file=log, flush=True)
            prints = name in PRINTS_JSON
            out = stack.enter_context((folder / f"{name}.json").open("w")) if prints else log
            self._process = subprocess.Popen(
                command,
                **{"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": log},
                # The processes share the device, so none may take its whole memory.
                env=os.environ | {GATE: str(self._gate), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
                start_new_session=True,  # so that what it started ends with it
            )

    @property
    def is_ready(self) -> bool:
        """Whether it has compiled, or ended."""
        return Path(f"{self._gate}.ready").exists() or self._process.poll() is not None

    def measure(self, seconds: float) -> str:
        """Lets it measure until a time limit, and returns how it ended."""
        Path(f"{self._gate}.go").touch()
        try:
            status = self._process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s"
        finally:
            self.end()
        # `compare` answers with its status, too.
        return "done" if status in (0, 10, 11) else f"ended with status {status}"

    def end(self) -> None:
        """Ends it and all processes that it started, even if it hangs."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._process.pid, sign)
                self._process.wait(ENDING)


def device_here() -> str:
    """The device of JAX, from another process, because this one must not hold the device."""
    code = "from hackmatrix_rl.system import describe_device\nprint(describe_device())"
    command = [sys.executable, "-c", code]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if asked.returncode:
        sys.exit(f"JAX does not start here: {asked.stderr.strip().splitlines()[-1]}")
    return asked.stdout.strip().splitlines()[-1]


def section(name: str, how: Mapping[str, str], seconds: float, found: list[Any]) -> list[str]:
    """The section of `results.md` for a part that has ended."""
    try:
        table = PARTS[name].table(found) if found else ["Nothing was measured."]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        table = [f"No table, see the JSON files: {type(error).__name__}: {error}."]
    odd = "".join(f"{each}: {said}; " for each, said in how.items() if said != "done")
    command = f"python benchmarks/lent_accelerator.py --out FOLDER --only {name}"
    return [
        *(f"## {PARTS[name].title}", "", "```bash", command, "```", ""),
        *(f"{odd}{provenance(seconds)}", "", *table, ""),
    ]


def measure(names: Sequence[str], folder: Path, *, minutes: float, small: bool) -> bool:
    """Compiles everything in parallel, then measures in turn. Returns whether all parts succeeded.

    A part may use its time limit and the unused time of the parts before it. If `minutes` is not
    nine, as in `PARTS`, all limits are scaled in proportion.
    """
    began = time.monotonic()
    device = device_here()
    print(f"{device}; {minutes:g} minutes for {', '.join(names)}", flush=True)
    if device.startswith("cpu") and not small:
        sys.exit("JAX sees no accelerator here. Use --small for a rehearsal on the CPU.")
    share = (60 * minutes - STARTING) / (60 * MINUTES - STARTING)
    versions = ", ".join(f"{each} {importlib.metadata.version(each)}" for each in ("jax", "jaxlib"))
    lines = [f"# {device}", "", f"With {versions}.{' A rehearsal: no figures.' * small}", ""]
    aside = folder / "prepared"
    aside.mkdir()

    with contextlib.ExitStack() as stack:

        def start(name: str, into: Path) -> list[Process]:
            processes = []
            for each, command in PARTS[name].commands(small).items():
                process = Process(each, command(into / f"{each}.json", small, folder), into)
                stack.callback(process.end)
                processes.append(process)
            return processes

        def when(*starts: str) -> list[str]:
            return [name for name in names if PARTS[name].start in starts]

        started = {name: start(name, folder) for name in when("first", "alongside")}
        preparing = [each for name in when("prepared") for each in start(name, aside)]
        waiting = [each for each in (*itertools.chain(*started.values()), *preparing)]
        while time.monotonic() - began < share * COMPILING:
            if all(each.is_ready for each in waiting):
                break
            time.sleep(0.1)
        print(f"compiled: {time.monotonic() - began:.0f} s", flush=True)
        for each in preparing:
            each.end()

        limit, went_well = time.monotonic(), True
        # What plays while the others compile keeps the device busy, so it ends first.
        for name in sorted(names, key=lambda name: PARTS[name].start != "alongside"):
            limit += share * PARTS[name].seconds
            turn = time.monotonic()
            how = {}
            for each in started.get(name) or start(name, folder):
                how[each.name] = each.measure(limit - time.monotonic())
                print(f"{each.name}: {how[each.name]}", flush=True)
            went_well &= set(how.values()) == {"done"}
            found = [row for row in (read(folder / f"{each}.json") for each in how) if row]
            lines += section(name, how, time.monotonic() - turn, found)
            (folder / "results.md").write_text("\n".join(lines))
    return went_well


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a new or empty folder for the results")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"default: {MINUTES:g}")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="a rehearsal, with tiny sizes")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        name, *case = given.part
        OWN[name](given.out, given.small, *case)
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
