"""Where the wall time of a run goes."""

from types import SimpleNamespace

import pytest

from hackmatrix_rl.runs._wall_time import WallTime, in_words, of_row
from hackmatrix_rl.training import Metrics, Utilization


def dispatch(seconds, updates):
    return Metrics(0, updates, seconds, 0.0, 0, dispatched=updates)


def trainer_at(operations, peak, unknown=""):
    """A trainer, as far as its share of the peak needs one."""
    return SimpleNamespace(utilization=lambda: Utilization(operations, peak, unknown))


def test_the_parts_add_up_over_all_starts_and_are_said_in_words():
    now = [100.0]
    times = WallTime(lambda: now[0])
    with times.spending("compile"):
        now[0] += 30
    times.spend("train", 60)
    now[0] += 70
    row = {"updates": 4, **times.read()}
    assert of_row(row) == {
        **{"compile": 30, "train": 60, "evaluate": 0, "save": 0, "lost": 0, "wait": 0, "other": 10}
    }
    again = WallTime(lambda: now[0])
    again.recall([{**row, "updates": 2, "time/train": 20}, row], 2, waited=59.0)
    now[0] += 41
    again.spend("train", 41)
    # 20 of 60 seconds of training were saved.
    assert of_row(again.read()) == {
        **{"compile": 30, "train": 61, "evaluate": 0, "save": 0, "lost": 40, "wait": 59},
        "other": 10,
    }
    shares = (
        "30% training, 30% waiting for a restart, 20% lost to restarts, 15% compiling, 5% other"
    )
    assert in_words(again.read()) == f"3:20: {shares}"
    assert in_words({"updates": 1}) == ""  # of an earlier version


def test_the_share_of_the_peak_is_a_mean_over_the_time_of_all_starts():
    times = WallTime(lambda: 100.0)
    # 2 updates of 30 operations in 3 seconds are 20 a second, of 100.
    assert times.train(trainer_at(30.0, 100.0), dispatch(3.0, 2)) == {"mfu": 0.2}
    assert times.train(trainer_at(30.0, 100.0), dispatch(1.0, 2)) == {"mfu": 0.6}
    assert times.results() == {**times.read(), "mfu": pytest.approx(0.3)}
    again = WallTime(lambda: 100.0)
    rows = [{"updates": 2, "seconds": 4.0, "mfu": 0.3}, {"updates": 4, "seconds": 1.0, "mfu": 9.0}]
    again.recall(rows, 2, waited=0.0)
    assert again.train(trainer_at(0.0, 0.0, "no product"), dispatch(7.0, 2)) == {}
    again.train(trainer_at(30.0, 100.0), dispatch(4.0, 8))
    assert again.results()["mfu"] == pytest.approx((4.0 * 0.3 + 4.0 * 0.6) / 8.0)
    assert str(again).endswith("training; MFU 45.0%")
    assert "mfu" not in WallTime().results()
