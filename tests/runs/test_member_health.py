"""Of several trainings in one program, those that go wrong are left out."""

from dataclasses import replace

import numpy as np
import pytest

from hackmatrix_rl.runs._health import Health, MemberHealth
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.training import Metrics

CONFIG = make_config(
    "debug",
    {
        "algorithm": "ppo",
        "env": "cartpole",
        "seeds": 3,
        "stop_unhealthy_members": True,
        "stop_after_nonfinite": 2,
        "stop_after_kl": 3,
    },
)
FINE = {"return": 1.0, "entropy": 0.5, "approx_kl": 0.001, "gradient_steps": 4, "skipped": 0}
NAN = {**FINE, "return": np.nan, "gradient_steps": 0, "skipped": 4}
FAR = {**FINE, "return": 7.0, "approx_kl": 9.0}


def metrics(update, *each):
    own = {f"member/{k}/{name}": x for k, row in enumerate(each) for name, x in row.items()}
    means = {name: float(np.mean([row[name] for row in each])) for name in FINE}
    return Metrics(
        env_steps=10 * update,
        updates=update,
        seconds=1.0,
        steps_per_second=1.0,
        episodes=3,
        episode={"return": means["return"]},
        learning={name: means[name] for name in FINE if name != "return"},
        extra={**own, "return_iqm": means["return"]},
    )


def test_one_that_must_stop_no_longer_counts():
    health = MemberHealth(CONFIG)
    seen = [health.look(metrics(update, FINE, NAN, FINE)) for update in (1, 2, 3)]
    assert [len(found) for _, found in seen] == [0, 1, 0]
    (finding,) = seen[1][1]
    assert "training 1 is left out" in finding.message
    assert "2 updates in a row. The others continue." in finding.message
    assert not finding.stop
    last = seen[2][0].as_dict()
    assert last["return"] == last["return_iqm"] == 1.0
    assert last["gradient_steps"] == 8
    assert last["member/1/left_out"] == 1
    assert "member/0/left_out" not in last
    # The run goes on, and may be saved.
    whole = Health.of_all(CONFIG)
    assert not any(one.stop for each, _ in seen for one in whole.look(each))
    assert whole.sound


def test_games_of_those_left_out_do_not_count():
    health = MemberHealth(CONFIG)
    for update in (1, 2, 3):
        seen = metrics(update, FINE, NAN, FINE)
        if update == 3:
            gone = {f"member/{k}/return" for k in (0, 2)}
            extra = {name: x for name, x in seen.extra.items() if name not in gone}
            seen = replace(seen, extra={**extra, "member/1/return": 9.0})
        last, _ = health.look(seen)
    assert "return" not in last.as_dict()
    assert "return_iqm" not in last.as_dict()
    assert last.learning["entropy"] == FINE["entropy"]


def test_each_has_its_own_reason_and_the_last_one_stops_the_run():
    health = MemberHealth(CONFIG)
    found = [health.look(metrics(update, FAR, NAN, NAN))[1] for update in (1, 2, 3)]
    assert [[one.stop for one in each] for each in found] == [[], [False, False], [True]]
    assert found[2][0].kind == "kl"
    assert "training 0 is left out" in found[2][0].message
    assert "the last one. Stopping" in found[2][0].message


def test_a_resumed_run_leaves_out_those_that_were():
    before = MemberHealth(CONFIG)
    rows = [before.look(metrics(update, FINE, NAN, FINE))[0].as_dict() for update in (1, 2)]
    health = MemberHealth(CONFIG)
    health.recall(rows)
    seen, found = health.look(metrics(3, FINE, NAN, FINE))
    assert found == []
    assert seen.episode == {"return": 1.0}


@pytest.mark.parametrize("given", [True, False])
def test_without_the_flag_one_of_them_stops_the_run(given):
    limits = make_config(
        "debug",
        {
            "algorithm": "ppo",
            "env": "cartpole",
            "seeds": 3,
            "stop_after_nonfinite": 2,
            "stop_unhealthy_members": given,
        },
    )
    health = Health.of_all(limits)
    bad = [health.look(metrics(update, FINE, NAN, FINE)) for update in (1, 2)]
    assert any(one.stop for each in bad for one in each) is not given
