"""Selects the training that plays, of several in one checkpoint."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath
from jaxtyping import PyTree

from hackmatrix_rl.runs.checkpoints._arrays import VALUE_SCALE, read_arrays
from hackmatrix_rl.runs.checkpoints._finder import Report
from hackmatrix_rl.runs.checkpoints._metadata import read_metadata
from hackmatrix_rl.runs.checkpoints._saved_run import members_named
from hackmatrix_rl.runs.config import algorithms, baseline_algorithm
from hackmatrix_rl.system.errors import ConfigError, refusing, shortened
from hackmatrix_rl.training import LEFT_OUT, Stored, check_number


def best_of(folder: epath.PathLike, counters: Mapping[str, Any], metric: str) -> int:
    """The training with the highest mean of a metric; with a minus in front, the lowest."""
    sign, name = (-1, metric[1:]) if metric.startswith("-") else (1, metric)
    finite = {number: sign * value for number, value in of_members(counters, name).items()}
    healthy = {number: value for number, value in finite.items() if not is_out(number, counters)}
    found = healthy or finite
    if not found:
        known = sorted({each for _, each, _ in members_named(counters)})
        raise ConfigError(
            f"{folder}: no training there has a {shortened(name)}. Use a number, or one of "
            f"{', '.join(known)}."
            if known
            else f"{folder}: has no numbers of several trainings. Use the number of one."
        )
    return max(found, key=lambda number: (found[number], -number))


def of_members(counters: Mapping[str, Any], name: str) -> dict[int, float]:
    """A metric of each training that has it."""
    named = members_named(counters)
    found = {number: counters[key] for number, metric, key in named if metric == name}
    return {number: value for number, value in found.items() if value is not None}


def playing_member(folder: epath.Path, size: int, report: Report) -> int:
    """The best of several trainings that was not left out, and whose policy is finite.

    The best has the highest mean of `RunConfig.best_by` over the last tenth of the training;
    without such numbers, it is the first. If none is healthy, it is training 0. `report` gets a
    message about the unhealthy ones before it.

    Raises:
        ConfigError: the arrays of the policy or of the value scale cannot be read.
    """
    parts = read_arrays(folder, "policy"), read_arrays(folder, "training", under=VALUE_SCALE)
    return playing(folder, read_metadata(folder), parts, size, report)


def playing(
    folder: epath.PathLike,
    metadata: Mapping[str, Any],
    parts: Sequence[Stored],
    size: int,
    report: Report,
) -> int:
    """`playing_member` with the metadata, the policies and their value scales."""
    counters, metric = metadata["counters"], best_by(metadata)
    values = {} if metric is None else of_members(counters, metric)
    size = int(min(size, *(part.fewest for part in parts)))
    wrong = {number for number in range(size) if is_out(number, counters)}
    for number in sorted(range(size), key=lambda number: -values.get(number, -math.inf)):
        if number in wrong:
            continue
        if all(part.member(number).not_finite() is None for part in parts):
            if wrong:
                some = f"{len(wrong)} trainings"
                named = f"training {min(wrong)}" if len(wrong) == 1 else some
                report(f"{folder}: training {number} plays: {named} went wrong before")
            return number
        wrong.add(number)
    return 0


def best_by(metadata: Mapping[str, Any]) -> str | None:
    """The metric by which a run ranks its trainings: `RunConfig.best_by`.

    A custom algorithm ranks by the metric of the baseline algorithm.
    """
    named = metadata["config"].get("algorithm", baseline_algorithm())
    kind = algorithms().get(named) if isinstance(named, str) else None
    return None if kind is None else kind.best_by


def is_out(number: int, counters: Mapping[str, Any]) -> bool:
    """Whether one of several trainings was left out as unhealthy (`without_members`)."""
    return LEFT_OUT.format(number) in counters


def of_member(
    folder: epath.Path,
    stored: Stored,
    like: PyTree,
    member: int | None,
    report: Report = warnings.warn,
) -> Stored:
    """The arrays of one of several trainings in one program; those of a single one unchanged."""
    size = stored.members(like)
    if size is None:
        if member is not None:
            raise ConfigError(f"{folder}: holds one training, not several. Leave member out.")
        return stored
    if member is None:
        member = playing_member(folder, size, report)
    with refusing(f"{folder}: "):
        check_number(member, size)
    return stored.member(member)
