"""The metrics of a population: of each member, and aggregated over members."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hackmatrix_rl.evaluation import interquartile_mean
from hackmatrix_rl.training._report import Metrics

MEMBER = "member/"
"""The prefix of the metrics of a member: `member/3/return`."""
LEFT_OUT = MEMBER + "{}/left_out"
"""The metric of a member that is excluded from the means (`without_members`)."""

_IQM = "return_iqm"


def of_member(metrics: Metrics, number: int) -> dict[str, float]:
    """The metrics of one member, by name."""
    begins = f"{MEMBER}{number}/"
    found = metrics.extra.items()
    return {name.removeprefix(begins): each for name, each in found if name.startswith(begins)}


def without_members(metrics: Metrics, left_out: Collection[int]) -> Metrics:
    """The metrics of a population without some members, which get the metric `LEFT_OUT`."""
    if not left_out:
        return metrics
    numbers = {int(name.split("/")[1]) for name in metrics.extra if name.startswith(MEMBER)}
    going = [of_member(metrics, number) for number in sorted(numbers - {*left_out})]
    means = over_members(going)
    # Dropped, because the remaining members may have no episodes to replace it with.
    others = {name: x for name, x in metrics.extra.items() if not name.startswith(_IQM)}
    return replace(
        metrics,
        episode={name: means[name] for name in metrics.episode if name in means},
        learning={name: means[name] for name in metrics.learning if name in means},
        extra={
            **others,
            **interquartile([own["return"] for own in going if "return" in own]),
            **{LEFT_OUT.format(number): 1.0 for number in left_out},
        },
    )


def over_members(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Aggregates by name over the members that have it: the sum of integers, else the mean."""
    names = dict.fromkeys(name for one in each for name in one)
    found = {name: [one[name] for one in each if name in one] for name in names}
    return {
        name: sum(values) if isinstance(values[0], int) else float(np.mean(values))
        for name, values in found.items()
    }


def interquartile(returns: Sequence[float]) -> dict[str, float]:
    """The interquartile mean of the members' returns, with its interval if that is finite."""
    if not returns:
        return {}
    found = interquartile_mean(np.reshape(returns, (-1, 1)))
    named = {_IQM: found.mean, f"{_IQM}_low": found.low, f"{_IQM}_high": found.high}
    return {name: value for name, value in named.items() if math.isfinite(value)}
