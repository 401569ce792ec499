"""Verdicts on returns that are known."""

import math

import numpy as np
import pytest

from hackmatrix_rl.evaluation import (
    Verdict,
    interquartile_mean,
    judge,
    mean_over_seeds,
    performance_profile,
)

pytestmark = pytest.mark.view


def seeds(*means, spread=0.0, episodes=4):
    """Returns whose mean over the episodes of each seed is known."""
    wave = np.resize([-spread, spread], episodes)
    return [mean + wave for mean in means]


def test_intervals_over_seeds_are_students():
    # The 97.5% point for 3 seeds is 4.303, for 2 it is 12.706.
    three = mean_over_seeds([1.0, 2.0, 3.0])
    assert three.mean == 2.0
    assert three.high - 2.0 == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    two = mean_over_seeds([1.0, 3.0])
    assert two.high - 2.0 == pytest.approx(12.7062, rel=1e-4)
    assert math.isnan(mean_over_seeds([1.0]).low)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    # Of 3 runs of 2 tasks, one score at each end is left out.
    found = interquartile_mean([[0.0, 2.0], [1.0, 3.0], [90.0, -70.0]])
    assert found.mean == (0 + 1 + 2 + 3) / 4
    # Runs are drawn within a task: both tasks are in every draw.
    apart = interquartile_mean([[0.0, 8.0], [0.0, 8.0], [0.0, 8.0], [0.0, 8.0]])
    assert (apart.low, apart.mean, apart.high) == (4.0, 4.0, 4.0)
    normal = np.random.default_rng(1).normal(size=(200, 1))
    wide = interquartile_mean(normal)
    assert wide.low < 0 < wide.high
    assert 0.2 < wide.high - wide.low < 0.4, "some 2 x 1.96 x 1.1 standard errors"
    assert math.isnan(interquartile_mean([[1.0]]).low)
    with pytest.raises(ValueError, match="a table of runs and tasks"):
        interquartile_mean([1.0, 2.0])


def test_a_performance_profile_is_the_share_of_scores_above_each_threshold():
    found = performance_profile([[0.0, 2.0], [1.0, 3.0]], [-1.0, 0.0, 1.5, 2.0, 3.0])
    assert found.mean.tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    # Tasks are drawn apart: one task's scores are all above 1.5, the other's all below.
    assert (found.low[2], found.high[2]) == (0.5, 0.5)
    assert (found.low[1], found.high[1]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("base", "candidate", "verdict"),
    [
        ((100.0, 101.0, 102.0), (98.0, 99.1, 99.9), Verdict.WITHIN),
        ((100.0, 101.0, 102.0), (95.0, 96.1, 96.9), Verdict.WORSE),
        ((10.0, 11.0), (20.0, 21.0), Verdict.WITHIN),
        ((100.0, 110.0, 90.0), (95.0, 90.0, 112.0), Verdict.NOT_SHOWN),
        # Of a negative return, more negative is worse.
        ((-100.0, -101.0, -102.0), (-100.0, -101.0, -102.0), Verdict.WITHIN),
        ((-100.0, -101.0, -102.0), (-102.0, -102.9, -104.1), Verdict.WITHIN),
        ((-100.0, -101.0, -102.0), (-105.0, -106.1, -106.9), Verdict.WORSE),
        ((-100.0, -101.0, -102.0), (-80.0, -81.0, -82.0), Verdict.WITHIN),
    ],
)
def test_a_small_loss_or_more_is_within_a_large_one_is_not_and_overlap_shows_nothing(
    base, candidate, verdict
):
    found = judge(seeds(*base), seeds(*candidate))
    assert found.verdict is verdict
    assert ("was not shown" in found.reason) == (verdict is Verdict.NOT_SHOWN)


def test_pairs_of_seeds_cancel_what_differs_between_seeds():
    base = (80.0, 100.0, 120.0)
    found = judge(seeds(*base), seeds(*(0.99 * x for x in base)))
    assert found.verdict is Verdict.WITHIN
    # Each alone is uncertain by far more than 3%.
    assert found.baseline.high - found.baseline.mean > 45


def test_a_share_of_nearly_nothing_is_hardly_a_tolerance():
    base = seeds(0.1, -0.1, 0.05)
    near = judge(base, seeds(0.09, -0.11, 0.04))
    assert near.verdict is Verdict.WORSE
    assert "that return may be 0" in near.reason
    assert judge(base, seeds(0.2, -0.2, 0.1)).verdict is Verdict.NOT_SHOWN
    assert judge(base, base).verdict is Verdict.WITHIN


def test_one_seed_speaks_of_its_episodes_alone():
    draw = np.random.default_rng(0)
    base = [draw.normal(10.0, 1.0, 1000)]
    same = [base[0] + draw.normal(0.0, 0.1, 1000)]
    found = judge(base, same)
    assert found.verdict is Verdict.WITHIN
    assert "this one seed" in found.reason
    assert found.seeds == 1
    few = judge([base[0][:5]], [draw.normal(10.0, 1.0, 5)])
    assert few.verdict is Verdict.NOT_SHOWN
    assert few.seeds_wanted is None


def test_how_many_seeds_would_do_is_said():
    base, other = (100.0, 100.0, 100.0), (98.0, 100.0, 102.0)
    found = judge(seeds(*base), seeds(*other))
    assert found.verdict is Verdict.NOT_SHOWN
    # Spread 2, to be told from -3: t / sqrt(n) below 1.5.
    assert found.seeds_wanted == 5
    hopeless = judge(seeds(100.0, 100.0, 100.0), seeds(94.0, 100.0, 95.0))
    assert hopeless.verdict is Verdict.NOT_SHOWN
    assert hopeless.seeds_wanted is None


def test_a_true_loss_of_twice_the_tolerance_is_hardly_ever_passed():
    draw = np.random.default_rng(1)
    verdicts = []
    for _ in range(120):
        base = draw.normal(100.0, 3.0, 3)
        other = base - 6.0 + draw.normal(0.0, 2.0, 3)
        verdicts.append(judge(seeds(*base), seeds(*other)).verdict)
    assert verdicts.count(Verdict.WITHIN) <= 0.025 * 120
    # And at the edge of the tolerance in no more than one of forty.
    edge = []
    for _ in range(120):
        base = draw.normal(100.0, 3.0, 3)
        edge.append(judge(seeds(*base), seeds(*(0.97 * base + draw.normal(0.0, 2.0, 3)))).verdict)
    assert edge.count(Verdict.WITHIN) <= 0.05 * 120
    assert edge.count(Verdict.WORSE) <= 0.05 * 120


@pytest.mark.parametrize(
    ("base", "other", "tolerance"),
    [
        ([], [], 0.03),
        (seeds(1.0), seeds(1.0, 2.0), 0.03),
        (seeds(1.0), seeds(1.0, episodes=6), 0.03),
        (seeds(1.0), seeds(1.0), -0.1),
    ],
)
def test_what_cannot_be_compared_is_an_error(base, other, tolerance):
    with pytest.raises(ValueError, match=r"same seeds|tolerance"):
        judge(base, other, tolerance=tolerance)
