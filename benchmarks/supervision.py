"""Supervised learning with and without curriculum, halting and averaged weights: a table.

    python benchmarks/supervision.py [--seeds 0 1 2] [--updates 800] [--json FILE]

4 x 4 Sudokus, the CPU preset with 2 cycles of z_H and 4 of z_L, and different puzzles for each
seed. Times are CPU seconds of updates alone, without compilation and evaluation. The score at equal
time is that at the end of the fastest variant of the seed, interpolated linearly between
evaluations. Averaged weights are not used in training, so one training gives the scores with and
without them. Results are written after each training, and a measurement that is stopped continues
from there.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.supervised import AnswerNetwork, SupervisedConfig, answers
from hackmatrix_rl.evaluation import mean_over_seeds
from hackmatrix_rl.games.puzzles import ExampleStream
from hackmatrix_rl.system import enable_compilation_cache

FILE = Path(__file__).parent / "learning" / "supervision.json"
SIZES = {"high_cycles": 2, "low_cycles": 4}
DEFAULT = "the default"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "with a curriculum over half of it": {"curriculum_recursion": 0.5},
    "without halting": {"halting": False},
}
RAW = "without an average"
EVERY, FEW = 100, 256
"""Updates between evaluations, and the fresh puzzles of those before the end."""


def trained(variant: str, seed: int, updates: int) -> list[dict[str, Any]]:
    """The curve of a training."""
    settings = {**SupervisedConfig.presets["cpu"], **SIZES, **VARIANTS[variant]}
    settings |= {"total_updates": updates, "seed": seed, "data_seed": seed, "cpu_devices": 1}
    config = SupervisedConfig(**settings)
    fresh = config.examples().fresh
    assert fresh is not None
    few = ExampleStream(
        fresh.inputs[:FEW], fresh.labels[:FEW],
        rows=fresh.rows, cols=fresh.cols, vocabulary=fresh.vocabulary,
    )  # fmt: skip
    first, start = jax.random.split(jax.random.key(seed))
    algorithm = config.build(config.policy(key=first), precision="f32", mesh=None)
    trainer = hm.Trainer(algorithm)
    trainer.start(start)
    trainer.compile()
    curve: list[dict[str, Any]] = []
    took, steps = 0.0, 0.0
    for done in range(EVERY, updates + 1, EVERY):
        began = time.process_time()
        metrics = trainer.dispatch(EVERY)
        took += time.process_time() - began
        steps = metrics.episode["supervision_steps"]
        puzzles = fresh if done == updates else few
        row: dict[str, Any] = {"updates": done, "seconds": took, "supervision_steps": steps}
        for name, policy in (("averaged", trainer.policy), ("raw", trainer.state.learner.policy)):
            assert isinstance(policy, AnswerNetwork)
            row[name] = answers(policy, puzzles, steps=config.supervision_steps).as_dict()
        curve.append(row)
    return curve


def scores(curves: dict[str, list[dict[str, Any]]], within: float) -> Iterator[tuple[str, float]]:
    """The percentage of solved puzzles of each variant of a seed, after a number of seconds."""
    for variant, curve in curves.items():
        seconds = [row["seconds"] for row in curve]
        for name, which in ((variant, "averaged"), (RAW, "raw")):
            if name != RAW or variant == DEFAULT:
                rates = [100 * row[which]["puzzles_right"]["mean"] for row in curve]
                yield name, float(np.interp(within, seconds, rates))


def table(found: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Prints the scores by seed, and the mean difference from the default."""
    whole = {seed: curves for seed, curves in found.items() if len(curves) == len(VARIANTS)}
    for name in ("equal steps", "equal time"):
        by_seed = []
        for curves in whole.values():
            fastest = min(curve[-1]["seconds"] for curve in curves.values())
            within = fastest if name == "equal time" else float("inf")
            by_seed.append(dict(scores(curves, within)))
        print(name, "of seeds", ", ".join(whole))
        for variant in (DEFAULT, RAW, *list(VARIANTS)[1:]):
            each = [one[variant] for one in by_seed]
            gap = mean_over_seeds([one[variant] - one[DEFAULT] for one in by_seed])
            seconds = [
                f"{curves[variant if variant in curves else DEFAULT][-1]['seconds']:.0f}"
                for curves in whole.values()
            ]
            print(
                f"| {variant} | {', '.join(f'{score:.1f}' for score in each)} | "
                f"{gap.mean:+.1f} ({gap.low:+.1f} to {gap.high:+.1f}) | {', '.join(seconds)} |"
            )
    for seed, curves in found.items():
        for variant, curve in curves.items():
            for which in ("averaged", "raw"):
                rates = [f"{100 * row[which]['puzzles_right']['mean']:.1f}" for row in curve]
                print(seed, variant, which, "by evaluation:", *rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=800, help=f"of a training: n * {EVERY}")
    parser.add_argument("--json", type=Path, default=FILE, help="file of the curves")
    given = parser.parse_args()
    if given.updates < EVERY or given.updates % EVERY:
        parser.error(f"--updates {given.updates}: must be a multiple of {EVERY}")
    enable_compilation_cache()
    found = json.loads(given.json.read_text()) if given.json.exists() else {}
    for seed in given.seeds:
        for variant in VARIANTS:
            curves = found.setdefault(str(seed), {})
            if variant not in curves:
                curves[variant] = trained(variant, seed, given.updates)
                given.json.write_text(json.dumps(found, indent=1) + "\n")
    table(found)


if __name__ == "__main__":
    main()
