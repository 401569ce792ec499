"""Means with their uncertainty."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

# The 97.5% point of the normal distribution: two-sided 95%.
Z = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95% confidence interval.

    Attributes:
        mean: the mean of the sample.
        low: lower end of the interval; NaN for a single value.
        high: upper end; NaN for a single value.
    """

    mean: float
    low: float
    high: float

    def as_dict(self) -> dict[str, object]:
        """The form of `eval --json`; an unknown end is null."""
        ends = [None if math.isnan(end) else end for end in (self.low, self.high)]
        return {"mean": self.mean, "ci95": ends}


def mean_of(values: ArrayLike) -> Estimate:
    """The mean of independent values, with an interval by the normal approximation.

    The interval is the mean plus and minus 1.96 standard errors. It needs some dozens of values.
    If few large values make up most of the sum (rare victories), it is too narrow until there
    are many of them.
    """
    numbers = np.asarray(values, np.float64)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return Estimate(mean, math.nan, math.nan)
    error = Z * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Estimate(mean, mean - error, mean + error)


def rate_of(happened: ArrayLike) -> Estimate:
    """The rate of an event, with Wilson's interval.

    The normal approximation would claim certainty for an event that happened never or always.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    numbers = np.asarray(happened, np.float64)
    count, rate = len(numbers), float(numbers.mean())
    spread = 1 + Z**2 / count
    centre = (rate + Z**2 / (2 * count)) / spread
    half = Z / spread * math.sqrt(rate * (1 - rate) / count + Z**2 / (4 * count**2))
    low = 0.0 if rate == 0 else centre - half
    high = 1.0 if rate == 1 else centre + half
    return Estimate(rate, low, high)
