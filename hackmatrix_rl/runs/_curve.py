"""The learning curve of a run as a picture."""

import math
from pathlib import Path

from hackmatrix_rl.runs.sinks import read_json_lines

# Name in the metrics, and label of the axis.
PANELS = (
    ("return", "mean return"),
    ("stage", "mean stage reached"),
    ("entropy", "entropy (nats)"),
    ("value_loss", "value loss"),
)


def draw_curve(metrics: Path, picture: Path, *, title: str) -> bool:
    """Draws the metrics of a run over its environment steps.

    Args:
        metrics: a file of `JsonLines`.
        picture: path of the picture; its ending decides the format.
        title: title above the picture.

    Returns:
        Whether the file has anything to draw.
    """
    from matplotlib.figure import Figure  # slow to import, and only the end needs it

    rows = [row for row in read_json_lines(metrics) if row.get("env_steps") is not None]
    # Not pyplot: this needs no global state and no display.
    figure = Figure(figsize=(9, 6), layout="constrained")
    figure.suptitle(title)
    drawn = False
    for axes, (name, label) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        points = [(row["env_steps"], _number(row.get(name))) for row in rows]
        known = [point for point in points if not math.isnan(point[1])]
        axes.plot([x for x, _ in known], [y for _, y in known], linewidth=1.2)
        axes.set_xlabel("environment steps")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        drawn = drawn or bool(known)
    if drawn:
        figure.savefig(picture, dpi=120)
    return drawn


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
