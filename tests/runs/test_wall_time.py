"""Where the wall time of a run goes."""

from hackmatrix_rl.runs._wall_time import WallTime, in_words, of_row


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
