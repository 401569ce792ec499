"""Draws the learning curves of benchmarks/learning.md, and those of Q-learning.

    python benchmarks/learning.py [NAME=RUN[,RUN...] ...]

Each NAME is a training, and its runs are its stages in order. RUN@STEPS is a stage from which the
next one continued after that number of steps; curve:NAME is all stages of a stored curve. Their
wins over environment steps are added to benchmarks/learning/curves.json, and the picture of each
league is drawn from that file. The returns of Q-learning are drawn from
benchmarks/learning/q_learning.json, which benchmarks/q_learning.py writes.
"""

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent / "learning"
CURVES = FOLDER / "curves.json"
Q_LEARNING = FOLDER / "q_learning.json"
EARLIER = "curve:"
POINTS = 50
"""Points of a stage; each is a mean over the episodes that ended since the one before."""
SHOWN = {"won": "games won (of 100)", "stage": "mean stage reached"}


def curve_of(runs: list[str], known: dict[str, Any]) -> dict[str, Any]:
    """The curve of a training from the metrics of its runs, and from known curves."""
    curve: dict[str, Any] = {"stages": [], "steps": [], **{name: [] for name in SHOWN}}
    before = 0
    for stage in runs:
        if stage.startswith(EARLIER):
            curve = copy.deepcopy(known[stage.removeprefix(EARLIER)])
            before = curve["stages"][-1][1]
            continue
        run, _, left = stage.partition("@")
        config = json.loads((Path(run) / "config.json").read_text())
        rows = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
        rows = [row for row in rows if not left or row["env_steps"] <= int(left)]
        size = max(1, len(rows) // POINTS)
        for first in range(0, len(rows) - size + 1, size):
            some = rows[first : first + size]
            episodes = sum(row["episodes"] for row in some)
            if not episodes:
                continue
            curve["steps"].append(before + some[-1]["env_steps"])
            for name in SHOWN:
                total = sum(row[name] * row["episodes"] for row in some if row["episodes"])
                curve[name].append(round(total / episodes, 4))
        before += rows[-1]["env_steps"]
        curve["stages"].append([config["algorithm"], before])
        curve["league"] = config["league"]
    return curve


def draw(curves: dict[str, Any], league: str, picture: Path) -> None:
    """One picture of a league: wins and stages over environment steps."""
    mine = {name: curve for name, curve in curves.items() if curve["league"] == league}
    figure, axes = plt.subplots(1, len(SHOWN), figsize=(10, 3.6), layout="constrained")
    for axis, (quantity, label) in zip(axes, SHOWN.items(), strict=True):
        for name, curve in mine.items():
            factor = 100 if quantity == "won" else 1
            values = [factor * value for value in curve[quantity]]
            (line,) = axis.plot([step / 1e6 for step in curve["steps"]], values, label=name, lw=1.5)
            for _, end in curve["stages"][:-1]:
                axis.axvline(end / 1e6, color=line.get_color(), lw=0.8, ls=":")
        axis.set(xlabel="environment steps (millions)", ylabel=label, ylim=(0, None))
        axis.grid(color="#d5d9de", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"League {league}; sampled play; a dotted line ends a stage of a training")
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def draw_q_learning(rows: list[dict[str, Any]], picture: Path) -> None:
    """Returns of each row of the table of speed over environment steps, a line for each seed."""
    learned = [row for row in rows if "curves" in row]
    figure, axes = plt.subplots(
        2, -(-len(learned) // 2), figsize=(11, 4.6), layout="constrained", sharex=True, sharey=True
    )
    for axis, row in zip(axes.flat, learned, strict=False):
        for seed, curve in row["curves"].items():
            steps, returns = [point[0] / 1000 for point in curve], [point[2] for point in curve]
            # Named by its number, so a seed has the same colour and mark everywhere.
            look = {"color": f"C{seed}", "marker": "os^"[int(seed)], "label": f"seed {seed}"}
            axis.plot(steps, returns, lw=1.2, ms=3, **look)
        axis.axhline(0.5, color="#7a828a", lw=0.8, ls=":", label="best without memory")
        axis.set(ylim=(0, 1.05))
        axis.set_title(row["name"].replace(" (", "\n("), fontsize=8)
        axis.grid(color="#d5d9de", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(learned) :]:
        axis.set_axis_off()
    legends = [axis.get_legend_handles_labels() for axis in axes.flat]
    longest = max(legends, key=lambda each: len(each[0]))
    figure.legend(*longest, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.supxlabel("environment steps (thousands)", fontsize=9)
    figure.supylabel("return of greedy games", fontsize=9)
    figure.savefig(picture, dpi=100)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="NAME=RUN[,RUN...]")
    FOLDER.mkdir(exist_ok=True)
    curves = json.loads(CURVES.read_text()) if CURVES.exists() else {}
    for each in parser.parse_args().runs:
        name, _, runs = each.partition("=")
        curves[name] = curve_of(runs.split(","), curves)
    CURVES.write_text(json.dumps(curves) + "\n")
    for league in sorted({curve["league"] for curve in curves.values()}):
        draw(curves, league, FOLDER / f"{league}.png")
    if Q_LEARNING.exists():
        found = json.loads(Q_LEARNING.read_text())
        draw_q_learning(found["speed"], Q_LEARNING.with_suffix(".png"))


if __name__ == "__main__":
    main()
