"""The lineage of population-based training: who copied whom, with which settings."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hackmatrix_rl.runs._curve import number, unit_of, whole_steps
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs.config import (
    PBT_ARGUMENTS,
    TrainConfig,
    is_scheduled,
    rate_text,
    settings_of,
    typed,
)
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import write_whole
from hackmatrix_rl.training import MEMBER
from hackmatrix_rl.view import INKS, literal, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = "Bright: the best of an interval. Thick: the winner and its ancestors. Dot: a copy."
_SETTING = re.compile(rf"^{MEMBER}(\d{{1,4}})/setting/([\w.]{{1,100}})$")
_DIGITS = 4
_LOG_FROM = 10.0  # ratio of a setting's largest to its least value from which its axis is log
_OWN = (*PBT_ARGUMENTS.values(), "seeds", "vary", "run_dir", "checkpoint_dir", "init")


@dataclass(frozen=True)
class Lineage:
    """The intervals of a population-based training; the last one may lack its exploit.

    Attributes:
        names: of the settings that vary.
        steps: environment steps at the beginning of each interval, and at the end of the last.
        settings: by name, the values of the members, `[intervals, members]`.
        used: the same, averaged over the interval where a schedule also changes them.
        fitness: `[intervals, members]`; NaN where a member had none.
        parents: the member that each member continued from, `[intervals, members]`.
    """

    names: tuple[str, ...]
    steps: tuple[float, ...]
    settings: Mapping[str, np.ndarray]
    used: Mapping[str, np.ndarray]
    fitness: np.ndarray
    parents: np.ndarray

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Lineage | None":
        """The lineage in the rows of a run's metrics; `None` if there is none."""
        found = [_SETTING.match(name) for row in rows[:1] for name in row]
        pairs = [(int(match[1]), match[2]) for match in found if match is not None]
        names, size = tuple(dict.fromkeys(name for _, name in pairs)), len({k for k, _ in pairs})
        if {*pairs} != {(member, name) for member in range(size) for name in names} or not names:
            return None
        groups: list[list[Mapping[str, Any]]] = [[]]
        for row in rows:
            groups[-1].append(row)
            if f"{MEMBER}0/parent" in row:
                groups.append([])
        groups = [group for group in groups if group]

        def table(name: str, rows: Sequence[Mapping[str, Any]]) -> list[float]:
            return [_mean([row.get(f"{MEMBER}{k}/{name}") for row in rows]) for k in range(size)]

        def every(name: str) -> np.ndarray:
            return np.array([table(name, group) for group in groups])

        last = [table("parent", group[-1:]) for group in groups]
        parents = np.where(np.isnan(last), np.arange(size), last).astype(int)
        settings = {name: every(f"setting/{name}") for name in names}
        used = {name: every(name) for name in names}
        return cls(
            names=names,
            steps=(0.0, *(number(group[-1].get("env_steps")) for group in groups)),
            settings=settings,
            used={name: np.where(np.isnan(v), settings[name], v) for name, v in used.items()},
            fitness=np.array([table("fitness", group[-1:]) for group in groups]),
            parents=np.where((parents < 0) | (parents >= size), np.arange(size), parents),
        )

    def winner(self) -> list[int]:
        """In each interval, the ancestor of the member that was best at the end."""
        known = [fitness for fitness in self.fitness if not np.isnan(fitness).all()]
        member = int(np.nanargmax(known[-1])) if known else 0
        line = [member]
        for parents in self.parents[-2::-1]:
            line.insert(0, int(parents[line[0]]))
        return line

    def schedule(self, name: str) -> list[tuple[float, float]]:
        """The setting along the winner's lineage, as pairs of its first step and its value."""
        values = [
            float(f"{self.used[name][k][m]:.{_DIGITS}g}") for k, m in enumerate(self.winner())
        ]
        each = list(zip(self.steps, values, strict=False))
        return [each[0], *(here for before, here in pairwise(each) if here[1] != before[1])]


def draw_setting(axes: "Axes", found: Lineage, name: str) -> None:
    """Plots a setting of all members against steps; the winner and its ancestors are thick.

    The colour is the rank of a member in its interval. A dot marks a member that became a copy; a
    thin line connects it to its parent's setting.
    """
    from matplotlib import colormaps

    values, line = found.settings[name], found.winner()
    unit, word = unit_of(found.steps[-1])
    steps = [each / unit for each in found.steps]
    for place, (begin, end) in enumerate(pairwise(steps)):
        shades = _shades(found.fitness[place])
        for member, value in enumerate(values[place]):
            best = line[place] == member
            colour = (
                INKS.grid if math.isnan(shades[member]) else colormaps["viridis"](shades[member])
            )
            axes.plot([begin, end], [value, value], color=colour, linewidth=3.5 if best else 1.2,
                      zorder=3 if best else 2, solid_capstyle="butt")  # fmt: skip
            if place + 1 == len(values):
                continue
            parent, after = found.parents[place][member], values[place + 1][member]
            if parent != member:
                before = values[place][parent]
                axes.plot([end, end], [before, after], color=INKS.text, linewidth=0.6, zorder=1)
                axes.plot([end], [after], color=INKS.text, marker="o", markersize=3.5, zorder=4)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low > 0 and low * _LOG_FROM < high:
        axes.set_yscale("log")
    style(axes, f"environment steps{word}", name.replace("_", " "), whole=whole_steps(unit))


def keep_lineage(config: TrainConfig, folder: RunFolder) -> None:
    """Writes a run's lineage as a picture, and the winner's settings as TOML, into its folder.

    Nothing is written for a run without a lineage.
    """
    from matplotlib.figure import Figure

    found = Lineage.from_rows(read_json_lines(folder.metrics))
    if found is None:
        return
    figure = Figure(figsize=(8, 1 + 3 * len(found.names)), layout="constrained")
    figure.suptitle(f"{literal(folder.run_id)}\n{CAPTION}", fontsize="medium")
    for place, name in enumerate(found.names):
        draw_setting(figure.add_subplot(len(found.names), 1, place + 1), found, name)
    save_figure(figure, folder.lineage)
    write_whole(folder.schedule, schedule_file(config, found))


def schedule_file(config: TrainConfig, found: Lineage) -> str:
    """The settings of a single training that follows the winner's lineage, as TOML.

    A setting that takes no schedule has its last value.
    """
    fields = {each.name: each for each in settings_of(config)}
    settings = {**config.as_dict()}
    notes = ["# The settings that population-based training found, for one training:"]
    notes.append("# the values of the best member and of the members that it descends from.")
    for name in found.names:
        pieces = found.schedule(name)
        if name not in fields:
            notes.append(f"# {name} ended at {pieces[-1][1]!r}")
        elif is_scheduled(fields[name]):
            settings[name] = _piecewise(pieces, config.steps_taken)
        else:
            settings[name] = pieces[-1][1]
            notes.append(f"# {name} takes no schedule: its last value")
    if isinstance(rate := settings["learning_rate"], float):  # it did not change
        settings["learning_rate"] = rate_text(rate, "constant")
    place = {"env": config.env}
    preset = {key for each in config.presets for key in config.preset_settings(each, place)}
    lines = [
        f"{name} = {_toml(value)}"
        for name, value in settings.items()
        if name == "algorithm"
        or (
            name in fields
            and name not in _OWN
            and (name in preset or value != typed(fields[name], fields[name].default))
        )
    ]
    return "\n".join([*notes, *lines]) + "\n"


def _piecewise(pieces: Sequence[tuple[float, float]], steps: int) -> str | float:
    """The text of a schedule: [(0, 0.001), (50, 0.002)] -> `piecewise:0.001:0.002@0.5`."""
    first, *rest = pieces
    if not rest:
        return first[1]
    texts = (f"{value!r}@{begin / steps:.9g}" for begin, value in rest)
    return ":".join(["piecewise", repr(first[1]), *texts])


def _toml(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    return json.dumps("none" if value is None else value)


def _shades(fitness: np.ndarray) -> np.ndarray:
    """Each member's rank, from 0 for the worst to 1; NaN without a fitness."""
    known = ~np.isnan(fitness)
    shades = np.full(len(fitness), np.nan)
    shades[known] = np.argsort(np.argsort(fitness[known])) / max(1, known.sum() - 1)
    return shades


def _mean(values: Sequence[object]) -> float:
    """The mean of the numbers among untrusted values; NaN without one."""
    found = [each for value in values if not math.isnan(each := number(value))]
    return sum(found) / len(found) if found else math.nan
