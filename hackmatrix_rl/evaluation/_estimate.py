"""Confidence intervals, and the comparison of two ways of training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# The 97.5% point of the normal distribution: two-sided 95%.
Z = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95% confidence interval."""

    mean: float  #: The mean of the sample.
    low: float  #: Lower end of the interval; NaN for a single value.
    high: float  #: Upper end; NaN for a single value.

    def as_dict(self) -> dict[str, object]:
        """The form of `eval --json`; NaN becomes null."""
        ends = [None if math.isnan(end) else end for end in (self.low, self.high)]
        return {"mean": self.mean, "ci95": ends}


def mean_of(values: ArrayLike) -> Estimate:
    """The mean of independent values, with an interval by the normal approximation.

    The interval is the mean plus and minus 1.96 standard errors. It needs some dozens of values.
    If rare large values (victories) dominate the sum, it is too narrow until the sample has many
    of them.
    """
    return _mean_within(values, lambda count: Z)


def rate_of(happened: ArrayLike) -> Estimate:
    """The rate of an event, with Wilson's interval.

    The normal approximation would have width 0 for an event that happened never or always.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    numbers = np.asarray(happened, np.float64)
    return _wilson(float(numbers.mean()), len(numbers))


def share_of(shares: ArrayLike) -> Estimate:
    """The mean of independent shares, each from 0 to 1, with Wilson's interval.

    The events within a share may be correlated, as the cells of a board are. So Wilson's formula
    gets the effective sample size: the number of independent events with the standard error that
    the shares have. If all shares are equal, each counts as one event.

    Source: Kott 2017, "A note on Wilson coverage intervals for proportions estimated from complex
    samples".
    """
    numbers = np.asarray(shares, np.float64)
    mean, count = float(numbers.mean()), float(len(numbers))
    variance = float(numbers.var(ddof=1)) / count if count > 1 else 0.0
    return _wilson(mean, mean * (1 - mean) / variance if variance else count)


def _wilson(rate: float, count: float) -> Estimate:
    """The rate of `count` independent events, and its interval."""
    spread = 1 + Z**2 / count
    centre = (rate + Z**2 / (2 * count)) / spread
    half = Z / spread * math.sqrt(rate * (1 - rate) / count + Z**2 / (4 * count**2))
    low = 0.0 if rate == 0 else centre - half
    high = 1.0 if rate == 1 else centre + half
    return Estimate(rate, low, high)


def interquartile_mean(scores: ArrayLike, *, resamples: int = 2000) -> Estimate:
    """The mean of the middle half of all scores, with a stratified bootstrap interval.

    It is less sensitive to outliers than the mean, and uses more of the data than the median. Runs
    are resampled with replacement, for each task separately.

    Args:
        scores: for instance the mean return of each training: one row for each run, one column for
            each task.
        resamples: number of bootstrap samples; they are the same in every call.

    Raises:
        ValueError: there is no score, or `scores` is no table.

    Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical
    precipice".
    """
    table = _runs_and_tasks(scores)
    mean = float(_middle_half(table.reshape(1, -1))[0])
    if len(table) < 2:
        return Estimate(mean, math.nan, math.nan)
    drawn = _middle_half(_resampled(table, resamples).reshape(resamples, -1))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Estimate(mean, float(low), float(high))


@dataclass(frozen=True)
class Profile:
    """A performance profile: a value for each threshold."""

    mean: np.ndarray  #: The share of scores above each threshold.
    low: np.ndarray  #: Lower ends of the pointwise 95% interval.
    high: np.ndarray  #: Upper ends.


def performance_profile(
    scores: ArrayLike, thresholds: ArrayLike, *, resamples: int = 2000
) -> Profile:
    """The share of scores above each threshold, with a stratified bootstrap interval.

    A way of training whose profile is above another's at every threshold is better by any kind of
    mean (stochastic dominance).

    Args:
        scores: as in `interquartile_mean`.
        thresholds: the scores to compare with.
        resamples: number of bootstrap samples; they are the same in every call.

    Raises:
        ValueError: there is no score, or `scores` is no table.

    Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical
    precipice".
    """
    table, asked = _runs_and_tasks(scores), np.asarray(thresholds, np.float64)
    drawn = _resampled(table, resamples).reshape(resamples, -1)
    above = np.stack([(drawn > each).mean(axis=1) for each in asked], axis=1)
    low, high = np.percentile(above, [2.5, 97.5], axis=0)
    mean = np.array([(table > each).mean() for each in asked])
    return Profile(mean, low, high)


def _runs_and_tasks(scores: ArrayLike) -> np.ndarray:
    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"scores must be a table of runs and tasks, not of shape {table.shape}")
    return table


def _resampled(table: np.ndarray, resamples: int) -> np.ndarray:
    """Tables with runs resampled for each task separately; the same in every call."""
    runs, tasks = table.shape
    rows = np.random.default_rng(0).integers(runs, size=(resamples, runs, tasks))
    drawn: np.ndarray = table[rows, np.arange(tasks)]
    return drawn


def _middle_half(rows: np.ndarray) -> np.ndarray:
    """The mean of each row without its lowest and highest quarter."""
    cut = rows.shape[1] // 4
    means: np.ndarray = np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut].mean(axis=1)
    return means


MOST_SEEDS = 1000


class Verdict(StrEnum):
    """The result of a comparison."""

    WITHIN = "within"
    WORSE = "worse"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Judgement:
    """A verdict and its evidence."""

    verdict: Verdict  #: Whether the candidate is within the tolerance of the baseline.
    tolerance: float  #: Share of the baseline's return that the candidate may lose.
    baseline: Estimate  #: Mean return of the baseline.
    candidate: Estimate  #: Mean return of the candidate.
    difference: Estimate  #: Candidate minus baseline, seed by seed.
    seeds: int  #: Number of seeds.
    reason: str  #: The verdict in words.
    #: About how many seeds would show that the candidate is within the tolerance, with the same
    #: mean and spread; `None` if the verdict is clear, or if no number of seeds would show it.
    seeds_wanted: int | None

    def as_dict(self) -> dict[str, Any]:
        """The form of `compare --json`."""
        return {
            "verdict": str(self.verdict),
            "tolerance": self.tolerance,
            "difference": self.difference.as_dict(),
            "reason": self.reason,
            "seeds_wanted": self.seeds_wanted,
        }


def mean_over_seeds(means: ArrayLike) -> Estimate:
    """The mean over training runs, with Student's interval, which is wide for few runs."""
    return _mean_within(means, _quantile)


def _mean_within(values: ArrayLike, quantile: Callable[[int], float]) -> Estimate:
    """The mean, plus and minus its standard error times a quantile for the number of values."""
    numbers = np.asarray(values, np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return Estimate(mean, math.nan, math.nan)
    half = quantile(count) * float(numbers.std(ddof=1)) / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half)


def judge(
    baseline: Sequence[ArrayLike], candidate: Sequence[ArrayLike], *, tolerance: float = 0.03
) -> Judgement:
    """Decides whether the candidate's return is within a tolerance of the baseline's.

    The verdict depends on the 95% interval of `candidate - baseline + tolerance * |baseline|`:
    within if the interval has no negative number, worse if it has only negative numbers, otherwise
    not shown. A higher return is always within. If the sign of the baseline's return is not clear
    (seeds differ in sign; for one seed, its interval contains 0), the verdict must hold for
    either sign, because a share of such a return is no tolerance.

    With two or more seeds, each seed is one observation (its mean return), paired between
    baseline and candidate, and the interval is Student's. With one seed, episodes are the
    observations, paired by their starts, and the verdict is for that seed only.

    Args:
        baseline: for each seed, the returns of its episodes.
        candidate: the same for the candidate: the same seeds, and episodes with the same starts.
        tolerance: share of the baseline's return, at least 0.

    Raises:
        ValueError: seeds or episodes do not pair up.
    """
    one, other = ([np.asarray(x, np.float64) for x in side] for side in (baseline, candidate))
    if not one or [x.shape for x in one] != [x.shape for x in other]:
        raise ValueError("baseline and candidate must have the same seeds and episodes")
    if tolerance < 0:
        raise ValueError(f"tolerance must not be negative, but is {tolerance}")
    mean: Callable[[ArrayLike], Estimate]
    if len(one) > 1:
        one_each, other_each = (np.array([x.mean() for x in side]) for side in (one, other))
        mean, unit = mean_over_seeds, f"over {len(one)} seeds"
        signs = [sign for sign in (1, -1) if (sign * one_each >= 0).any()]
    else:
        one_each, other_each = one[0], other[0]
        mean, unit = mean_of, "for this one seed"
        ends = mean(one_each)
        signs = [sign for sign in (1, -1) if not max(sign * ends.low, sign * ends.high) < 0]
    difference = mean(other_each - one_each)
    # The tolerance that is not used up, for each observation.
    left = [other_each - one_each + tolerance * sign * one_each for sign in signs]
    estimates = [mean(values) for values in left]
    if difference.low >= 0 or all(estimate.low >= 0 for estimate in estimates):
        verdict, said = Verdict.WITHIN, "is"
    elif all(estimate.high < 0 for estimate in estimates):
        verdict, said = Verdict.WORSE, "is not"
    else:
        verdict, said = Verdict.NOT_SHOWN, "was not shown to be"
    reason = f"the candidate {said} within {tolerance:.0%} of the baseline's return, {unit}"
    if len(estimates) > 1:
        reason += "; that return may be 0, so a share of it is no tolerance"
    wanted = _seeds_wanted(left) if verdict is Verdict.NOT_SHOWN and len(one) > 1 else None
    return Judgement(
        verdict=verdict,
        tolerance=tolerance,
        baseline=mean(one_each),
        candidate=mean(other_each),
        difference=difference,
        seeds=len(one),
        reason=reason,
        seeds_wanted=wanted,
    )


def _seeds_wanted(left: list[np.ndarray]) -> int | None:
    """The least number of seeds that would show `within`, with these means and spreads."""
    for count in range(2, MOST_SEEDS + 1):
        half = _quantile(count) / math.sqrt(count)
        if all(values.mean() >= half * values.std(ddof=1) for values in left):
            return count
    return None


def _quantile(count: int) -> float:
    """The 97.5% point of Student's distribution for a mean of `count` numbers."""
    from scipy.special import stdtrit  # here, because it is a tenth of the package's import time

    return float(stdtrit(count - 1, 0.975))
