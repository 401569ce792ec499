"""The report of a sweep: the best settings, their importance, every trial."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix_rl.runs.sweeps._journal import usable
from hackmatrix_rl.runs.sweeps._space import in_words, shown
from hackmatrix_rl.runs.sweeps._study import best_of, find_study, identity_of, require_optuna
from hackmatrix_rl.system.errors import ConfigError, in_shell
from hackmatrix_rl.view import INKS, document, facts, figures, literal, style, table, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 5  # values of a setting that its axis labels individually
FEWEST = 2
"""Minimum number of complete trials for the importance of settings."""
_ROUGH = 10  # complete trials; with fewer, the importance is a rough estimate
_APART = 0.05  # of the height of an axis; closer labels would overlap


def report_of_sweep(
    folder: Path, storage: str | None = None, *, report: Callable[[str], object] = print
) -> str:
    """A sweep as one self-contained HTML page.

    The page has the best settings, the importance of each setting (PED-ANOVA), the trials as
    parallel coordinates and over time, and a table of them. Optuna reads the journal in the folder,
    or the database `storage`. `report` takes a message about a truncated journal.
    """
    study = find_study(folder, storage, report=report)
    if study is None:
        raise ConfigError(f"{folder}: holds no sweep. Give the --folder of one.")
    trials = study.get_trials(deepcopy=False)
    metric = identity_of(study).get("metric", "value").partition(",")[0]
    done = [each for each in trials if each.state.name == "COMPLETE"]
    states = [each.state.name for each in trials]
    counts = {name.lower(): str(states.count(name)) for name in dict.fromkeys(states)}
    pruned = [each for each in trials if each.state.name == "PRUNED" and each.value is not None]
    drawn = {}
    if len(done) + len(pruned) >= FEWEST:
        said = "every trial: a line through its settings, darker where it is better"
        drawn[said] = lambda axes: _parallel(axes, worst_first(study, done), pruned, metric)
    if done or pruned:
        drawn[f"{metric} of each trial, and the best so far"] = lambda axes: _history(
            axes, done, pruned, metric, study.direction.name
        )
    sections = {
        "Best": _best(study, folder, metric),
        "Importance": _importance(study, done, metric),
        "Trials": figures(drawn) if drawn else "",
        "Every trial": _every(trials, metric),
    }
    lead = facts({"metric": metric, "trials": str(len(trials)), **counts})
    return document(folder.resolve().name, sections, lead=lead, made_by="hackmatrix-rl report")


def worst_first(study: Any, done: Sequence[Any]) -> list[Any]:
    """Complete trials, the best one last."""
    sign = 1 if study.direction.name == "MAXIMIZE" else -1
    return sorted(done, key=lambda each: sign * each.value)


def _best(study: Any, folder: Path, metric: str) -> str:
    if (best := best_of(study)) is None:
        return "<p>No trial is complete yet.</p>"
    number, value = best
    values = study.get_trials(deepcopy=False)[number].params
    rows = [["trial", str(number)], [metric, shown(value)]]
    rows += [[name, shown(each)] for name, each in values.items()]
    train = in_shell("hackmatrix-rl", "train", "--config", folder / "best.toml")
    return table([], rows) + f"<p>Train with them: <code>{text(train)}</code></p>"


def _importance(study: Any, done: Sequence[Any], metric: str) -> str:
    if len(done) < FEWEST:
        return f"<p>It needs {FEWEST} complete trials; there are {len(done)}.</p>"
    if len({each.value for each in done}) == 1:
        return f"<p>All complete trials have the same {text(metric)}.</p>"
    importance = require_optuna().importance
    evaluator = importance.PedAnovaImportanceEvaluator()
    with usable(f"{study.study_name}: its importances"):
        found = importance.get_param_importances(study, evaluator=evaluator)
    names = list(found)[::-1]

    def draw(axes: "Axes") -> None:
        axes.barh(range(len(names)), [found[name] for name in names], color=INKS.line)
        style(axes, "share of the importance")
        axes.set_yticks(range(len(names)), list(map(literal, names)))  # a label for each bar

    said = f"how much each setting separates the best trials by {metric} (PED-ANOVA)"
    rough = f"; rough, by {len(done)} complete trials alone" if len(done) < _ROUGH else ""
    return figures({f"{said}{rough}": draw})


def _parallel(axes: "Axes", done: Sequence[Any], pruned: Sequence[Any], metric: str) -> None:
    """Parallel coordinates: one axis per setting, then the metric; `done` ends with the best."""
    trials = [*pruned, *done]
    names = sorted({name for each in trials for name in each.params})
    columns = []
    for place, name in enumerate([*names, metric]):
        log = False
        if place < len(names):
            values = [each.params.get(name) for each in trials]
            log = any(getattr(each.distributions.get(name), "log", False) for each in trials)
        else:
            values = [each.value for each in trials]
        heights, labels = _axis(values, log)
        columns.append(heights)
        axes.axvline(place, color=INKS.grid, linewidth=0.8)
        for height, label in labels:
            axes.annotate(
                literal(label),
                (place, height),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
                color=INKS.text,
            )
    lines = np.stack(columns, axis=1)
    for rank, line in enumerate(lines[len(pruned) :], 1):
        label = "complete" if rank == len(done) else "_"
        alpha = 0.1 + 0.9 * rank / len(done)
        axes.plot(range(len(line)), line, color=INKS.line, alpha=alpha, label=label)
    for place, line in enumerate(lines[: len(pruned)]):
        label = "_" if place else f"pruned, at its last {metric}"
        axes.plot(
            range(len(line)), line, ":", color=INKS.runner, linewidth=1, alpha=0.7, label=label
        )
    style(axes)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(-0.1, len(names) + 0.5)  # room for the labels of the last axis
    ticks = list(map(literal, [*names, metric]))
    axes.set_xticks(range(len(columns)), ticks, rotation=25, ha="right", rotation_mode="anchor")
    axes.set_yticks([])


def _axis(values: Sequence[Any], log: bool) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """The heights of values on an axis from 0 to 1, and its labels: all if they are few."""
    kinds = sorted({shown(each) for each in values})
    if all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        numbers = np.array(values, np.float64)
        if log:
            numbers = np.log(numbers)
    else:
        numbers = np.array([kinds.index(shown(each)) for each in values], np.float64)
    heights = (numbers - numbers.min()) / (np.ptp(numbers) or 1.0)
    labels = dict(zip(heights.tolist(), map(shown, values), strict=True))
    ends = [max(labels), min(labels)]
    marked = list(dict.fromkeys(ends))
    for height in sorted(labels) if len(kinds) <= _FEW else []:
        if all(abs(height - other) > _APART for other in marked):
            marked.append(height)
    return heights, [(height, labels[height]) for height in sorted(marked)]


def _history(
    axes: "Axes", done: Sequence[Any], pruned: Sequence[Any], metric: str, direction: str
) -> None:
    numbers, values = [each.number for each in done], [each.value for each in done]
    last = [each.number for each in pruned], [each.value for each in pruned]
    if pruned:
        axes.plot(*last, "x", color=INKS.runner, markersize=4, label="pruned, at its last value")
    if done:
        best = (np.maximum if direction == "MAXIMIZE" else np.minimum).accumulate(values)
        axes.plot(numbers, values, "o", color=INKS.points, markersize=4, label="complete")
        axes.step(numbers, best, where="post", color=INKS.line, label="the best so far")
    style(axes, "trial", metric, whole="x")


def _every(trials: Sequence[Any], metric: str) -> str:
    rows = [
        [
            f"trial-{each.number:04}",
            each.state.name.lower(),
            "-" if each.value is None else shown(each.value),
            in_words(each.params),
            str(each.user_attrs.get("why", "")),
        ]
        for each in trials
    ]
    caption = "The value of a pruned trial is its last one."
    return table(["run", "state", metric, "settings", "end"], rows, caption=caption)
