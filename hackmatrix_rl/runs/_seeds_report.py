"""Several runs on one HTML page: seeds of one way to train, and ways side by side."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import (
    Estimate,
    interquartile_mean,
    mean_over_seeds,
    performance_profile,
)
from hackmatrix_rl.runs._curve import draw_smoothed, entry, number, panels_of
from hackmatrix_rl.runs._record import RunRecord, read_run
from hackmatrix_rl.view import INKS, document, figures, literal, style, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RESULTS = (("return", "return"), ("score", "score"), ("win_rate", "win rate"))
_OF_A_SEED = (
    *("seed", "init", "run_dir", "checkpoint_dir", "device"),
    *("keep", "keep_best", "save_interval", "save_interval_minutes", "replays"),
    *("eval_episodes", "eval_interval", "eval_interval_episodes"),
)
"""Settings of one run, not of a way to train."""
_COLOURS = ("line", "points", "runner", "random", "text")
"""Of `INKS`, by way to train; more ways begin again."""


@dataclasses.dataclass(frozen=True)
class _Way:
    """Runs whose settings differ in the seed alone."""

    name: str  #: A letter.
    settings: str  #: Those that other ways do not share; with one way alone, none.
    runs: tuple[RunRecord, ...]

    def means(self, result: str) -> np.ndarray:
        """The result of each run's evaluation, without those that have none."""
        found = np.array([_mean(run, result) for run in self.runs])
        return found[~np.isnan(found)]


def report_of_seeds(runs: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Some runs as one self-contained HTML page, and the returns as data.

    Runs whose settings differ only in the seed, the folder and the start (`--init`) are one way to
    train. The page has the evaluation of each run, interquartile means with stratified bootstrap
    intervals, performance profiles, and the learning curves. The data has a list of runs by way to
    train, each a list of one return: what rliable reads after `np.array`.

    Raises:
        ConfigError: one of them is no run, is named twice, or has no evaluation.
    """
    records = [read_run(run) for run in runs]
    paths = [record.folder.path.resolve() for record in records]
    for place, (run, record) in enumerate(zip(runs, records, strict=True)):
        if paths.index(paths[place]) != place:
            raise ConfigError(f"{run}: named twice. Name each run once.")
        if np.isnan(_mean(record, "return")):
            raise ConfigError(
                f"{run}: has no evaluation yet (summary.json, written at the end of a training). "
                "Leave it out, or let it end."
            )
    ways = _ways(records)
    told = table([], [[way.name, way.settings] for way in ways])
    sections = {
        "Ways to train": told if len(ways) > 1 else "",
        "Evaluation": _evaluation(ways),
        "Over seeds": _over_seeds(ways),
        "Performance profiles": _profiles(ways),
        "Learning curves": _curves(ways),
    }
    page = document(f"{len(runs)} runs", sections, made_by="hackmatrix-rl report")
    return page, {
        way.settings or "all": [[value] for value in way.means("return").tolist()] for way in ways
    }


def _ways(records: Sequence[RunRecord]) -> list[_Way]:
    """The runs by their settings."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(repr(sorted(_settings(record).items())), []).append(record)
    found = [_settings(group[0]) for group in groups.values()]
    names = sorted({name for settings in found for name in settings})
    differing = [
        name for name in names if len({repr(settings.get(name)) for settings in found}) > 1
    ]
    ways = []
    for place, (settings, group) in enumerate(zip(found, groups.values(), strict=True)):
        said = ", ".join(f"{name} {settings.get(name)}" for name in differing)
        ways.append(_Way(_letters(place), said, tuple(group)))
    return ways


def _letters(place: int) -> str:
    """A to Z, then AA, AB and so on."""
    return (_letters(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def _settings(record: RunRecord) -> dict[str, Any]:
    """What decides how a run trains, besides its seed; stages are one setting."""
    watching = {each.name for each in record.fields if each.metadata["group"] == "Watching"}
    left_out = watching | {*_OF_A_SEED}

    def own(config: Mapping[str, Any]) -> dict[str, Any]:
        then = config.get("then")
        found = {name: value for name, value in config.items() if name not in left_out}
        return {**found, "then": own(then)} if isinstance(then, Mapping) else found

    return own(record.config)


def _mean(record: RunRecord, result: str) -> float:
    return number(entry(entry(entry(record.summary, "trained"), result), "mean"))


def _shown(value: float, result: str) -> str:
    if np.isnan(value):
        return "-"
    return f"{100 * value:.1f}%" if result == "win_rate" else f"{value:.2f}"


def _interval(found: Estimate, result: str) -> str:
    low, high = _shown(found.low, result), _shown(found.high, result)
    return _shown(found.mean, result) + ("" if low == "-" else f" ({low} to {high})")


def _evaluation(ways: Sequence[_Way]) -> str:
    rows = [
        [
            run.folder.run_id,
            way.name,
            str(run.config.get("seed", "")),
            *(_shown(_mean(run, result), result) for result, _ in _RESULTS),
        ]
        for way in ways
        for run in way.runs
    ]
    return table(["run", "way", "seed", *(label for _, label in _RESULTS)], rows)


def _over_seeds(ways: Sequence[_Way]) -> str:
    rows = []
    for way in ways:
        for result, label in _RESULTS:
            values = way.means(result)
            if not values.size:
                continue
            estimates = mean_over_seeds(values), interquartile_mean(values[:, None])
            cells = [_interval(each, result) for each in estimates]
            rows.append([way.name, label, str(values.size), *cells])
    caption = (
        "95% intervals: Student's for the mean, a stratified bootstrap for the interquartile mean. "
        "Each run is one observation."
    )
    heads = ["way", "", "runs", "mean", "interquartile mean"]
    return table(heads, rows, caption=caption)


def _profiles(ways: Sequence[_Way]) -> str:
    """The share of runs above each return, with a bootstrap band."""
    every = np.concatenate([way.means("return") for way in ways])
    margin = 0.05 * (every.max() - every.min()) + 1e-9
    returns = np.linspace(every.min() - margin, every.max() + margin, 200)

    def draw(axes: "Axes") -> None:
        for way, colour in zip(ways, _colours(ways), strict=True):
            profile = performance_profile(way.means("return")[:, None], returns)
            axes.plot(returns, profile.mean, color=colour, linewidth=2.0, label=literal(way.name))
            if len(way.runs) > 1:
                axes.fill_between(returns, profile.low, profile.high, color=colour, alpha=0.2)
        style(axes, "return", "share of runs above")

    return figures({"share of runs above each return": draw})


def _curves(ways: Sequence[_Way]) -> str:
    """Each run's smoothed curve, in the colour of its way to train."""
    panels = panels_of([row for way in ways for run in way.runs for row in run.rows])
    found = {}
    for name, label in panels:

        def draw(axes: "Axes", name: str = name, label: str = label) -> None:
            for way, colour in zip(ways, _colours(ways), strict=True):
                for place, run in enumerate(way.runs):
                    draw_smoothed(axes, run.rows, name, colour, "" if place else way.name)
            style(axes, "environment steps (millions)", label)

        found[label] = draw
    return figures(found)


def _colours(ways: Sequence[_Way]) -> list[str]:
    return [getattr(INKS, _COLOURS[place % len(_COLOURS)]) for place in range(len(ways))]
