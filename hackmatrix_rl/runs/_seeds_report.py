"""Compares several runs on one HTML page: seeds of a configuration, and configurations."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix_rl.evaluation import (
    Estimate,
    interquartile_mean,
    mean_over_seeds,
    performance_profile,
)
from hackmatrix_rl.runs._curve import (
    draw_smoothed,
    entry,
    furthest,
    line_of,
    number,
    panels_of,
    unit_of,
    whole_steps,
)
from hackmatrix_rl.runs._record import RunRecord, read_run, seeds_in_words, value_in_words
from hackmatrix_rl.runs._saved_summary import source_in_words
from hackmatrix_rl.runs.checkpoints import SAVED_BY
from hackmatrix_rl.runs.config import with_rate_text
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import document, figures, literal, style, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RESULTS = (("return", "return"), ("score", "score"), ("win_rate", "win rate"))
_OF_A_SEED = (
    *("seed", "init", "run_dir", "checkpoint_dir", "device"),
    *("keep", "keep_best", "keep_every", "save_interval", "save_interval_minutes", "replays"),
    *("eval_episodes", "eval_interval", "eval_interval_episodes"),
)
"""Settings of a single run, which do not distinguish ways to train."""


@dataclasses.dataclass(frozen=True)
class _Way:
    """Runs whose settings differ in the seed alone."""

    name: str  #: A letter.
    settings: str  #: Those that differ from other ways; empty if there is only one way.
    runs: tuple[RunRecord, ...]

    def means(self, result: str) -> np.ndarray:
        """The result in each run's evaluation that has it."""
        found = np.array([_mean(run, result) for run in self.runs])
        return found[~np.isnan(found)]


def report_of_seeds(runs: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Several runs as one self-contained HTML page, and their returns as data.

    Runs whose settings differ only in the seed, the folder and the initial weights (`--init`) are
    one way to train. The page has the evaluation of each run, interquartile means with stratified
    bootstrap intervals, performance profiles, and the learning curves. The data maps each way to
    train to a list of runs, each a list of one return: the format of rliable after `np.array`.
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
    listed = table([], [[way.name, way.settings] for way in ways])
    sections = {
        "Ways to train": listed if len(ways) > 1 else "",
        "Evaluation": _evaluation(ways),
        "Over seeds": _over_seeds(ways),
        "Performance profiles": _profiles(ways),
        "Learning curves": _curves(ways),
    }
    page = document(f"{len(runs)} runs", sections, made_by="hackmatrix-rl report")
    said = [way.settings or "all" for way in ways]
    names = [
        text if said.count(text) == 1 else f"{text} ({way.name})"
        for text, way in zip(said, ways, strict=True)
    ]
    returns = [[[value] for value in way.means("return").tolist()] for way in ways]
    return page, dict(zip(names, returns, strict=True))


def _ways(records: Sequence[RunRecord]) -> list[_Way]:
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(repr(sorted(_settings(record).items())), []).append(record)
    found = [_settings(group[0]) for group in groups.values()]
    names = sorted({name for settings in found for name in settings})
    differing = [
        name for name in names if len({repr(settings.get(name)) for settings in found}) > 1
    ]
    shared = set.intersection(*({*settings} for settings in found))
    ways = []
    for place, (settings, group) in enumerate(zip(found, groups.values(), strict=True)):
        defaults = {each.name: each.default for each in group[0].fields}
        # A setting that only some ways have is named only if it differs from its default.
        own = [
            name
            for name in differing
            if name in shared or (name in settings and settings[name] != defaults.get(name))
        ]
        said = ", ".join(f"{name} {value_in_words(settings[name])}" for name in own)
        ways.append(_Way(_letters(place), said, tuple(group)))
    return ways


def _results(ways: Sequence[_Way]) -> list[tuple[str, str]]:
    """The results that some run has, with their labels."""
    return [each for each in _RESULTS if any(way.means(each[0]).size for way in ways)]


def _letters(place: int) -> str:
    """A to Z, then AA, AB and so on."""
    return (_letters(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def _settings(record: RunRecord) -> dict[str, Any]:
    """The settings that decide how a run trains, without its seed; stages are one setting."""
    watching = {each.name for each in record.fields if each.metadata["group"] == "Watching"}
    left_out = watching | {*_OF_A_SEED}

    def own(config: Mapping[str, Any]) -> dict[str, Any]:
        then = config.get("then")
        stored = with_rate_text(config).items()
        found = {name: value for name, value in stored if name not in left_out}
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
    results = _results(ways)
    rows = [
        [
            run.folder.run_id,
            way.name,
            seeds_in_words(run.config),
            *(_shown(_mean(run, result), result) for result, _ in results),
        ]
        for way in ways
        for run in way.runs
    ]
    best = [entry(run.summary.get("trained"), "member") for way in ways for run in way.runs]
    several = any(each is not None for each in best)
    captions = ["Of several trainings in one program, the best one counts."] if several else []
    for said in dict.fromkeys(source_in_words(run.summary) for way in ways for run in way.runs):
        if said:
            captions.append(f"Of runs of {SAVED_BY}: {said[0].lower()}{said[1:]}")
    caption = " ".join(captions)
    return table(["run", "way", "seed", *(label for _, label in results)], rows, caption=caption)


def _over_seeds(ways: Sequence[_Way]) -> str:
    rows = []
    for way in ways:
        for result, label in _results(ways):
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
    heads = ["way", "result", "runs", "mean", "interquartile mean"]
    return table(heads, rows, caption=caption)


def _profiles(ways: Sequence[_Way]) -> str:
    """The fraction of runs above each return, with a bootstrap band."""
    every = np.concatenate([way.means("return") for way in ways])
    margin = 0.05 * (every.max() - every.min()) + 1e-9
    returns = np.linspace(every.min() - margin, every.max() + margin, 200)

    def draw(axes: "Axes") -> None:
        for place, way in enumerate(ways):
            line = line_of(place)
            profile = performance_profile(way.means("return")[:, None], returns)
            axes.plot(returns, profile.mean, linewidth=2.0, label=literal(way.name), **line)
            if len(way.runs) > 1:
                low, high, colour = profile.low, profile.high, line["color"]
                axes.fill_between(returns, low, high, color=colour, alpha=0.2)
        style(axes, "return", "share of runs above")

    return figures({"share of runs above each return": draw})


def _curves(ways: Sequence[_Way]) -> str:
    """Each run's smoothed curve, in the colour of its way to train."""
    rows = [row for way in ways for run in way.runs for row in run.rows]
    panels, (unit, word) = panels_of(rows), unit_of(furthest(rows))
    found = {}
    for name, label in panels:

        def draw(axes: "Axes", name: str = name, label: str = label) -> None:
            for way, line in zip(ways, map(line_of, range(len(ways))), strict=True):
                for place, run in enumerate(way.runs):
                    said = "" if place else way.name
                    draw_smoothed(axes, run.rows, name, said, unit=unit, linewidth=1.6, **line)
            style(axes, f"environment steps{word}", label, whole=whole_steps(unit))

        found[label] = draw
    return figures(found)
