"""Are two samples drawn from the same distribution? Chi-square, corrected for asking often.

One recorded position gives many questions (where does the third enemy go, which type appears
first ...), hundreds of positions give thousands. Each question becomes a `Table`: how often
each answer was seen in the one sample and in the other. Two things are then looked at:

- the worst single table: Holm's correction over all tables;
- each family (one question, all positions) as a whole: the sum of its chi-squares, again
  with Holm's correction. This finds what is slightly wrong everywhere.

Each of the two gets half of the significance, which is thus the chance of a false alarm of
the whole test, however many positions and questions there are (`test_statistics.py` draws
from the null to see that it is).
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

SIGNIFICANCE = 1e-3
"""Chance that a whole test raises the alarm although nothing is wrong."""

RARE = 5.0
"""Answers expected less often than this in the smaller sample are counted as one."""


@dataclass(frozen=True)
class Table:
    """One question at one position: Pearson's statistic of two samples' answers.

    It is scaled to have the mean `freedom` exactly, given the table's margins. `freedom` is the
    number of answers, after pooling, less one.
    """

    family: str
    where: str
    chi_square: float
    freedom: int

    @property
    def p_value(self) -> float:
        return float(chdtrc(self.freedom, self.chi_square))


def compare(family: str, where: str, expected: np.ndarray, got: np.ndarray) -> Table | None:
    """The table of two samples' counts, or `None` where only one answer is left after pooling."""
    counts = np.stack([expected, got]).astype(np.float64)
    sizes = counts.sum(axis=1, keepdims=True)
    if sizes.min() == 0:
        raise ValueError(f"{family}, {where}: an empty sample")
    counts = _pool(counts, rare=RARE * sizes.sum() / sizes.min())
    if counts.shape[1] < 2:
        return None
    total = sizes.sum()
    mean = sizes * counts.sum(axis=0) / total
    statistic = ((counts - mean) ** 2 / mean).sum() * (total - 1) / total
    return Table(family, where, float(statistic), counts.shape[1] - 1)


def compare_labels(
    family: str,
    where: str,
    expected: np.ndarray,
    got: np.ndarray,
    weights: np.ndarray | None = None,
) -> Table | None:
    """`compare` of two samples given as one label a draw (`weights`: draws an expected label)."""
    labels, index = np.unique(np.concatenate([expected, got]), return_inverse=True)
    first, second = index[: len(expected)], index[len(expected) :]
    return compare(
        family,
        where,
        np.bincount(first, weights, minlength=len(labels)),
        np.bincount(second, minlength=len(labels)),
    )


def _pool(counts: np.ndarray, rare: float) -> np.ndarray:
    """Rare answers as one. Only both samples' total decides: pooling must not see the split."""
    counts = counts[:, np.argsort(counts.sum(axis=0), kind="stable")]
    total = counts.sum(axis=0)
    few = int((total < rare).sum())
    if few and few < len(total) and total[:few].sum() < rare:
        few += 1  # together still rare: they join the next
    if few == 0:
        return counts
    return np.concatenate([counts[:, :few].sum(axis=1, keepdims=True), counts[:, few:]], axis=1)


def deviations(tables: list[Table], significance: float = SIGNIFICANCE) -> list[str]:
    """A line for each rejected table and family, the worst first: too unlikely to be chance."""
    families: dict[str, list[Table]] = defaultdict(list)
    for table in tables:
        families[table.family].append(table)
    sums = [
        Table(
            family,
            f"{len(members)} positions together",
            sum(table.chi_square for table in members),
            sum(table.freedom for table in members),
        )
        for family, members in families.items()
    ]
    rejected = _holm(sums, significance / 2) + _holm(tables, significance / 2)
    return [
        f"{table.family}, {table.where}: chi-square {table.chi_square:.1f}"
        f" on {table.freedom} degrees of freedom, p = {table.p_value:.2g}"
        for table in rejected
    ]


def _holm(tables: list[Table], significance: float) -> list[Table]:
    ordered = sorted(tables, key=lambda table: table.p_value)
    rejected = []
    for rank, table in enumerate(ordered):
        if table.p_value * (len(ordered) - rank) > significance:
            break
        rejected.append(table)
    return rejected
