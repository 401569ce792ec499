"""The learning curve of a run as a picture."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs.config import RunConfig, TrainConfig, algorithms, member_settings
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import read_json
from hackmatrix_rl.system.errors import DamagedFileError
from hackmatrix_rl.view import INKS, literal, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMOOTHED = 0.05
"""Fraction of the rows that each point of the smoothed line averages."""

_LENGTH = ("length", "mean length of a game")
_FEWEST = 20  # rows; fewer are not smoothed
_MOST_LINES = 16  # trainings or settings; more lines would hide each other
_COLOURS = ("line", "points", "violet", "orange", "text")  # of `INKS`
_DASHES = ("-", "--", ":", "-.")
_MOST = 1e30  # Matplotlib cannot draw much larger numbers


def draw_curve(
    metrics: Path,
    picture: Path,
    *,
    title: str,
    summary: Path | None = None,
    settings: Sequence[str] = (),
) -> bool:
    """Plots the metrics of a run against environment steps; returns whether there are any.

    The suffix of `picture` decides its format. If the run has a `summary`, horizontal lines show
    the means of random and runner. `settings` are as for `draw_panel`.
    """
    from matplotlib.figure import Figure  # slow to import, and only the end needs it

    rows = read_json_lines(metrics)
    # Not pyplot: this needs no global state and no display.
    figure = Figure(layout="constrained")
    figure.suptitle(literal(title))
    levels = baselines(summary)
    panels = panels_of(rows)
    if not panels:
        return False
    columns = math.ceil(len(panels) / 2)
    figure.set_size_inches(5 * columns, 7)
    for place, (name, label) in enumerate(panels):
        axes = figure.add_subplot(2, columns, place + 1)
        draw_panel(axes, rows, name, label, levels.get(name, {}), settings)
    save_figure(figure, picture)
    return True


def draw_curve_of(folder: RunFolder, config: RunConfig) -> bool:
    """Plots the learning curve of a run into its folder; see `draw_curve`."""
    return draw_curve(
        folder.metrics,
        folder.curve,
        title=folder.run_id,
        summary=folder.summary,
        settings=member_settings(config.vary, config.seeds),
    )


def panels_of(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """The metrics to plot that the rows contain, each with the label of its axis."""
    there = {name for row in rows for name in row}
    every = [kind.panels for kind in algorithms().values()]
    found = max(every, key=lambda panels: sum(name in there for name, _ in panels))
    # Other games have no stages.
    lacks = there & {"length", "eval/length"} and not there & {"stage", "eval/stage"}
    found = tuple(_LENGTH if lacks and name == "stage" else (name, label) for name, label in found)
    return tuple(
        (name, label)
        for name, label in found
        if any(len(_known(rows, each)[0]) for each in (name, f"eval/{name}"))
    )


def baselines(summary: Path | None) -> dict[str, dict[str, float]]:
    """The means of random and runner in a summary, by metric and player; empty if unreadable."""
    try:
        content = None if summary is None else read_json(summary)
    except DamagedFileError:
        content = None
    found: dict[str, dict[str, float]] = {}
    for player in ("random", "runner"):
        for name, _ in TrainConfig.panels:
            mean = number(entry(entry(entry(content, player), name), "mean"))
            if not math.isnan(mean):
                found.setdefault(name, {})[player] = mean
    return found


def draw_panel(
    axes: "Axes",
    rows: Sequence[Mapping[str, Any]],
    name: str,
    label: str,
    levels: Mapping[str, float],
    settings: Sequence[str] = (),
) -> None:
    """Plots one metric against environment steps: raw, smoothed, and evaluated.

    `levels` are the means of players without training. `settings` has the varied settings of each
    training in the program; each of a few distinct settings has a colour.
    """
    steps, values = _known(rows, name)
    tested = _known(rows, f"eval/{name}", f"eval/{name}_low", f"eval/{name}_high")
    unit, word = unit_of(furthest(rows))
    if not _draw_settings(axes, rows, name, unit, settings):
        _draw_training(axes, steps / unit, values)
        _draw_members(axes, rows, name, unit)
    if len(tested[0]):
        _draw_evaluations(axes, tested[0] / unit, tested[1:])
    for player, level in levels.items():
        ink = INKS.random if player == "random" else INKS.runner
        axes.axhline(level, color=ink, linestyle="--", linewidth=1.2, label=literal(player))
    style(axes, f"environment steps{word}", label, whole=whole_steps(unit))


def draw_smoothed(
    axes: "Axes",
    rows: Sequence[Mapping[str, Any]],
    name: str,
    label: str = "",
    *,
    unit: float,
    **line: Any,
) -> None:
    """Plots one metric, smoothed, against environment steps divided by `unit`."""
    steps, values = _known(rows, name)
    if len(values) >= _FEWEST:
        values = smoothed(values)
    axes.plot(steps / unit, values, label=literal(label) if label else "_", **line)


def line_of(place: int) -> dict[str, Any]:
    """The colour and the line style of the curve number `place`, as arguments of `plot`."""
    dashes, colour = divmod(place, len(_COLOURS))
    return {"color": getattr(INKS, _COLOURS[colour]), "linestyle": _DASHES[dashes % len(_DASHES)]}


def furthest(rows: Sequence[Mapping[str, Any]]) -> float:
    """The largest number of environment steps in the rows; 0 without one."""
    return max([0.0, *_known(rows)[0]])


def smoothed(values: np.ndarray) -> np.ndarray:
    """A moving average, whose window is shorter at both ends."""
    half = max(1, round(SMOOTHED * len(values) / 2))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    first, last = np.maximum(place - half, 0), np.minimum(place + half + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)


def number(value: object) -> float:
    """A value of an untrusted file as a float; NaN if it is not a number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) < _MOST else math.nan


def _draw_training(axes: "Axes", steps: np.ndarray, values: np.ndarray) -> None:
    if len(values) < _FEWEST:
        axes.plot(steps, values, color=INKS.line, linewidth=1.4, marker="o", markersize=3,
                  label="training")  # fmt: skip
        return
    axes.plot(steps, values, color=INKS.line, linewidth=0.8, alpha=0.35, label="training")
    axes.plot(steps, smoothed(values), color=INKS.line, linewidth=2.0, label="smoothed")


def _draw_settings(
    axes: "Axes", rows: Sequence[Mapping[str, Any]], name: str, unit: float, settings: Sequence[str]
) -> bool:
    """Plots the mean over the trainings of each setting, and each training if they are few.

    Returns whether it has drawn numbers: there must be 2 to `_MOST_LINES` settings.
    """
    groups: dict[str, list[str]] = {}
    for k, setting in enumerate(settings):
        groups.setdefault(setting, []).append(f"member/{k}/{name}")
    if not 1 < len(groups) <= _MOST_LINES:
        return False
    drawn = False
    for place, (setting, names) in enumerate(groups.items()):
        line = line_of(place)
        for each in names if len(names) > 1 and len(settings) <= 2 * _MOST_LINES else []:
            draw_smoothed(axes, rows, each, unit=unit, linewidth=0.7, alpha=0.45, **line)
        means = [_mean_row(row, name, names) for row in rows]
        drawn = drawn or any(name in row for row in means)
        draw_smoothed(axes, means, name, setting, unit=unit, linewidth=2.0, **line)
    return drawn


def _mean_row(row: Mapping[str, Any], name: str, names: Sequence[str]) -> dict[str, Any]:
    """The steps of a row, and the mean over the trainings that have a number in it."""
    found = [value for each in names if not math.isnan(value := number(row.get(each)))]
    means = {name: fmean(found)} if found else {}
    return {"env_steps": row.get("env_steps"), **means}


def _draw_members(axes: "Axes", rows: Sequence[Mapping[str, Any]], name: str, unit: float) -> None:
    """Plots the interquartile band of several trainings, and each training if they are few."""
    named = {each for row in rows for each in row if re.fullmatch(rf"member/\d+/{name}", each)}
    if len(named) < 2:
        return
    steps, *each = _known(rows, *sorted(named))
    if len(steps) >= _FEWEST:
        each = [smoothed(values) for values in each]
    for values in each if len(each) <= _MOST_LINES else []:
        axes.plot(steps / unit, values, color=INKS.line, linewidth=0.7, alpha=0.5)
    low, high = np.quantile(each, (0.25, 0.75), axis=0)
    label = f"quartiles of {len(each)} trainings"
    axes.fill_between(steps / unit, low, high, color=INKS.line, alpha=0.2, linewidth=0, label=label)


def _draw_evaluations(axes: "Axes", steps: np.ndarray, found: Sequence[np.ndarray]) -> None:
    mean, low, high = found
    axes.errorbar(
        steps,
        mean,
        yerr=np.maximum([mean - low, high - mean], 0),
        color=INKS.points,
        linestyle="none",
        marker="o",
        markersize=3.5,
        capsize=2,
        label="evaluated (95%)",
    )


def _known(rows: Sequence[Mapping[str, Any]], *names: str) -> tuple[np.ndarray, ...]:
    """Steps and the named metrics, an array each, of the rows that have all of them."""
    found = [[number(row.get(name)) for name in ("env_steps", *names)] for row in rows]
    table = np.array(found, np.float64).reshape(-1, 1 + len(names))
    return tuple(table[~np.isnan(table).any(axis=1)].T)


def unit_of(most: float) -> tuple[float, str]:
    """The divisor of an axis of steps, and the suffix of its label."""
    for unit, word in ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands")):
        if most >= 2 * unit:
            return unit, f" ({word})"
    return 1.0, ""


def whole_steps(unit: float) -> str:
    """The axis that gets integer ticks: `x` if steps are not divided."""
    return "x" if unit == 1 else ""


def entry(content: object, name: str) -> Any:
    """An entry of untrusted JSON; `None` without one."""
    return content.get(name) if isinstance(content, Mapping) else None
