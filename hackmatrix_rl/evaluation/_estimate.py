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
        mean: of the sample.
        low: lower end of the interval; NaN where one value is all there is.
        high: upper end, likewise.
    """

    mean: float
    low: float
    high: float

    def as_dict(self) -> dict[str, object]:
        """As `eval --json` writes it; an end that is not known is null."""
        ends = [None if math.isnan(end) else end for end in (self.low, self.high)]
        return {"mean": self.mean, "ci95": ends}


def mean_of(values: ArrayLike) -> Estimate:
    """The mean of independent values, its interval by the normal approximation.

    The interval is the mean plus and minus 1.96 standard errors. Sound from some dozens of
    values on; where very few of them make up most of the sum (a rare victory), it is too
    narrow until there are many of those.
    """
    numbers = np.asarray(values, np.float64)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return Estimate(mean, math.nan, math.nan)
    error = Z * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Estimate(mean, mean - error, mean + error)


def rate_of(happened: ArrayLike) -> Estimate:
    """How often something happens, with Wilson's interval.

    The normal approximation would claim certainty where it never (or always) happened.

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
