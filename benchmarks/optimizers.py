"""Trains with several optimizers for equal steps: the table of learning.md.

    nice -n 5 python benchmarks/optimizers.py [cartpole imitation ppo]

Each command trains three seeds of each learning rate in one program. Results are written to
benchmarks/learning/optimizers.json after each command, and a measurement that is stopped continues
from there. Without a task, the table is printed.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy.stats import t

FILE = Path(__file__).parent / "learning" / "optimizers.json"
SEEDS = 3
RATES = {
    **{"lion": ("1e-4", "3e-4", "1e-3"), "sgd": ("0.1", "0.3", "1")},
    "ppo adam": ("3e-4", "1e-3", "3e-3"),
}
USUAL = ("1e-3", "3e-3", "1e-2")
SMALL = ("--cpu-devices", "1", "--eval-episodes", "0", "--save-interval-minutes", "none")
TASKS = {
    "cartpole": (
        ("train", "--env", "cartpole", "--total-timesteps", "100_000"),
        "return",
        (
            *((name, "f32") for name in ("adam", "muon", "lion", "adamw", "sgd")),
            *(("adam", "bf16"), ("muon", "bf16")),
        ),
    ),
    "imitation": (
        (
            *("imitate", "--teacher", "expert", "--network", "mlp", "--width", "128"),
            *("--num-envs", "256", "--total-timesteps", "98_304"),
        ),
        "accuracy",
        (("adam", "f32"), ("muon", "f32"), ("lion", "f32")),
    ),
    "ppo": (
        (
            *("train", "--algorithm", "ppo", "--network", "mlp", "--width", "128"),
            *("--num-envs", "256", "--total-timesteps", "409_600"),
        ),
        "return",
        (*((name, "f32") for name in ("adam", "muon", "lion")), ("adam", "bf16"), ("muon", "bf16")),
    ),
}
"""By task: the command, the metric of the last tenth, and optimizers with their precisions."""


def measure(task: str, optimizer: str, precision: str) -> None:
    """Trains with one optimizer, and stores the metric of each training."""
    command, metric, _ = TASKS[task]
    rates = RATES.get(f"{task} {optimizer}", RATES.get(optimizer, USUAL))
    if task == "imitation":  # one rate: the expert takes most of the time
        rates = rates[:1]
    vary = ("--vary", f"learning_rate={','.join(rates)}")
    chosen = vary if len(rates) > 1 else ("--learning-rate", f"linear:{rates[0]}:0")
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--optimizer", optimizer, "--precision", precision, "--seeds", str(SEEDS))
        line = ("hackmatrix-rl", *command, *SMALL, *flags, *chosen, "--run-dir", f"{folder}/run")
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        text = Path(folder, "run", "metrics.jsonl").read_text()
    rows = [json.loads(each) for each in text.splitlines()]
    last = rows[-math.ceil(len(rows) / 10) :]
    for place, rate in enumerate(rates):
        members = range(SEEDS * place, SEEDS * (place + 1))
        names = [f"member/{k}/{metric}" for k in members]  # not in a row without an episode's end
        found = [statistics.fmean(row[name] for row in last if name in row) for name in names]
        stored = json.loads(FILE.read_text()) if FILE.exists() else {}
        stored.setdefault(task, {})[f"{optimizer} {precision} {rate}"] = found
        FILE.write_text(json.dumps(stored, indent=1) + "\n")


def interval(numbers: list[float]) -> str:
    """The mean with Student's 95% interval."""
    half = t.ppf(0.975, len(numbers) - 1) * statistics.stdev(numbers) / math.sqrt(len(numbers))
    return f"{statistics.fmean(numbers):.3g} ± {half:.2g}"


def main() -> None:
    for task in sys.argv[1:]:
        for optimizer, precision in TASKS[task][2]:
            stored = json.loads(FILE.read_text()) if FILE.exists() else {}
            begun = f"{optimizer} {precision} "
            if not any(name.startswith(begun) for name in stored.get(task, {})):
                measure(task, optimizer, precision)
    for task, found in json.loads(FILE.read_text()).items():
        print(f"\n| {task} | precision | learning rate | {TASKS[task][1]} |\n|---|---|---|---|")
        for name, numbers in found.items():
            print(f"| {' | '.join(name.split())} | {interval(numbers)} |")


if __name__ == "__main__":
    main()
