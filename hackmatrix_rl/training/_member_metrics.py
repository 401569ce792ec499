"""The metrics of several trainings in one program: each one's own, and what they are together."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hackmatrix_rl.evaluation import interquartile_mean
from hackmatrix_rl.training._report import Metrics

MEMBER = "member/"
"""Where the names of a member's own metrics begin: `member/3/return`."""
LEFT_OUT = MEMBER + "{}/left_out"
"""The metric of a member that no longer counts in the means (`without_members`)."""


_IQM = "return_iqm"


def of_member(metrics: Metrics, number: int) -> dict[str, float]:
    """A member's own numbers, by name."""
    begins = f"{MEMBER}{number}/"
    found = metrics.extra.items()
    return {name.removeprefix(begins): each for name, each in found if name.startswith(begins)}


def without_members(metrics: Metrics, left_out: Collection[int]) -> Metrics:
    """The metrics of a population, with means over the other members; it names those left out."""
    if not left_out:
        return metrics
    numbers = {int(name.split("/")[1]) for name in metrics.extra if name.startswith(MEMBER)}
    going = [of_member(metrics, number) for number in sorted(numbers - {*left_out})]
    means = over_members(going)
    # The interquartile mean of all would stay where the others have no games.
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
    """By name, the mean over the members that have it; of whole numbers the sum."""
    names = dict.fromkeys(name for one in each for name in one)
    found = {name: [one[name] for one in each if name in one] for name in names}
    return {
        name: sum(values) if isinstance(values[0], int) else float(np.mean(values))
        for name, values in found.items()
    }


def interquartile(returns: Sequence[float]) -> dict[str, float]:
    """The interquartile mean of the members' returns, with its interval if there is one."""
    if not returns:
        return {}
    found = interquartile_mean(np.reshape(returns, (-1, 1)))
    named = {_IQM: found.mean, f"{_IQM}_low": found.low, f"{_IQM}_high": found.high}
    return {name: value for name, value in named.items() if math.isfinite(value)}
