"""A sweep on one HTML page: the best settings, which ones matter, every trial."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix_rl.errors import ConfigError, in_shell
from hackmatrix_rl.sweeps._journal import usable
from hackmatrix_rl.sweeps._space import in_words, shown
from hackmatrix_rl.sweeps._study import best_of, find_study, identity_of, require_optuna
from hackmatrix_rl.view import INKS, document, facts, figures, literal, style, table, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 5  # values of a setting that its axis names one by one
FEWEST = 4
"""Complete trials from which on it is said how much a setting matters."""


def report_of_sweep(
    folder: Path, storage: str | None = None, *, report: Callable[[str], object] = print
) -> str:
    """A sweep as one self-contained HTML page.

    The page has the best settings, the importance of each setting (PED-ANOVA), the trials as
    parallel coordinates and over time, and a table of them. Optuna reads the journal in the folder,
    or the database of the `storage`. `report` takes a message about a journal that ends in half a
    line.

    Raises:
        ConfigError: there is no such sweep, its journal or database cannot be used, or Optuna is
            not installed.
    """
    study = find_study(folder, storage, report=report)
    if study is None:
        raise ConfigError(f"{folder}: holds no sweep. Give the --folder of one.")
    trials = study.get_trials(deepcopy=False)
    metric = identity_of(study).get("metric", "value").partition(",")[0]
    done = [each for each in trials if each.state.name == "COMPLETE"]
    names = sorted({name for each in done for name in each.params})
    states = [each.state.name for each in trials]
    counts = {name.lower(): str(states.count(name)) for name in dict.fromkeys(states)}
    drawn = {}
    if len(done) >= 2:
        drawn["every complete trial: a line through its settings, darker where it is better"] = (
            lambda axes: _parallel(axes, done, names, metric, worst_first(study, done))
        )
    if done:
        drawn[f"{metric} of each trial, and the best so far"] = lambda axes: _history(
            axes, done, metric, study.direction.name
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
    """Complete trials, the best at the end."""
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
        return f"<p>Told from {FEWEST} complete trials on.</p>"
    importance = require_optuna().importance
    evaluator = importance.PedAnovaImportanceEvaluator()
    with usable(f"{study.study_name}: its importances"):
        found = importance.get_param_importances(study, evaluator=evaluator)
    names = list(found)[::-1]

    def draw(axes: "Axes") -> None:
        axes.barh(range(len(names)), [found[name] for name in names], color=INKS.line)
        style(axes, "share of the importance")
        axes.set_yticks(range(len(names)), list(map(literal, names)))  # each, not a few

    said = f"how much each setting tells the best trials from the others by {metric} (PED-ANOVA)"
    return figures({said: draw})


def _parallel(
    axes: "Axes", done: Sequence[Any], names: Sequence[str], metric: str, order: Sequence[Any]
) -> None:
    """Each setting is an upright axis; the last one is the metric."""
    columns = []
    for place, name in enumerate([*names, metric]):
        if name in names:
            values = [each.params.get(name) for each in done]
        else:
            values = [each.value for each in done]
        log = any(getattr(each.distributions.get(name), "log", False) for each in done)
        heights, labels = _axis(values, log)
        columns.append(heights)
        for height, label in labels:
            axes.annotate(literal(label), (place, height), fontsize="small", color=INKS.text)
    lines = np.stack(columns, axis=1)
    row_of = {each.number: row for row, each in enumerate(done)}
    for rank, each in enumerate(order, 1):
        line = lines[row_of[each.number]]
        axes.plot(range(len(line)), line, color=INKS.line, alpha=0.1 + 0.9 * rank / len(order))
    style(axes)
    axes.set_xticks(range(len(columns)), list(map(literal, [*names, metric])), rotation=20)
    axes.set_yticks([])


def _axis(values: Sequence[Any], log: bool) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """Where values are on an axis from 0 to 1, and its labels: of each if they are few."""
    kinds = sorted({shown(each) for each in values})
    if all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        numbers = np.array(values, np.float64)
        if log:
            numbers = np.log(numbers)
    else:
        numbers = np.array([kinds.index(shown(each)) for each in values], np.float64)
    heights = (numbers - numbers.min()) / (np.ptp(numbers) or 1.0)
    labels = dict(zip(heights.tolist(), map(shown, values), strict=True))
    marked = sorted(labels) if len(kinds) <= _FEW else [min(labels), max(labels)]
    return heights, [(height, labels[height]) for height in marked]


def _history(axes: "Axes", done: Sequence[Any], metric: str, direction: str) -> None:
    numbers, values = [each.number for each in done], [each.value for each in done]
    best = (np.maximum if direction == "MAXIMIZE" else np.minimum).accumulate(values)
    axes.plot(numbers, values, "o", color=INKS.points, markersize=4, label="a trial")
    axes.step(numbers, best, where="post", color=INKS.line, label="the best so far")
    style(axes, "trial", metric)


def _every(trials: Sequence[Any], metric: str) -> str:
    rows = [
        [
            f"trial-{each.number:04}",
            each.state.name.lower(),
            "-" if each.value is None else shown(each.value),
            in_words(each.params),
            _why(each.user_attrs),
        ]
        for each in trials
    ]
    caption = "The value of a pruned trial is its last one."
    return table(["run", "state", metric, "settings", ""], rows, caption=caption)


def _why(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("why", ""))
