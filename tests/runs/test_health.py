"""What each sign of a training that goes wrong is answered with."""

import dataclasses
import math

import pytest

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.runs._health import ENTROPY_PATIENCE, Health
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Metrics

pytestmark = pytest.mark.smoke

FINE = {
    "policy_loss": -0.01,
    "value_loss": 0.3,
    "entropy": 0.33,
    "approx_kl": 0.002,
    "gradient_norm": 0.4,
    "gradient_steps": 16,
    "skipped": 0,
}
NOTHING_FINITE = {"gradient_steps": 0, "skipped": 16}


def metrics(update, *, dropped=0.0, reward=1.0, **learning):
    return Metrics(
        env_steps=100 * update,
        updates=update,
        seconds=1.0,
        steps_per_second=100.0,
        episodes=3,
        episode={"return": 1.0, "dropped": dropped},
        reward={"kills": reward},
        learning={**FINE, **learning},
    )


ORDINARY = {"siphons": 1.0, "programs": 1.5, "undos": 0.5, "owns_undo": 0.6, "length": 60.0}


def played(update, *, games=500, **episode):
    """Metrics of a dispatch in which so many games ended."""
    return dataclasses.replace(metrics(update), episodes=games, episode={**ORDINARY, **episode})


def findings(health, *seen):
    return [finding for each in seen for finding in health.look(each)]


LOW = [metrics(n, entropy=0.05) for n in range(1, ENTROPY_PATIENCE + 1)]

BAD = [metrics(n, **NOTHING_FINITE) for n in range(1, 100)]

LEFT_ALONE = {
    # Ranges over three seeds of the default run: entropy 0.30 to 0.85, KL up to 0.006.
    "a run like the default one": (
        Health.from_config(PPOConfig()),
        [metrics(n, entropy=0.3, approx_kl=0.006) for n in range(1, 1000)],
    ),
    "no thresholds": (
        Health(entropy_floor=None, kl_alarm=None),
        [metrics(n, entropy=0.0, approx_kl=9.0) for n in range(1, 50)],
    ),
    "low entropy for a moment": (
        Health(entropy_floor=0.1),
        [*LOW[:-1], metrics(ENTROPY_PATIENCE, entropy=0.2)],
    ),
    "few games": (
        Health(),
        [played(n, games=9, siphons=2.0 if n < 99 else 0.0) for n in range(1, 103)],
    ),
    "a game without siphons": (Health(), [dataclasses.replace(metrics(1), episodes=5000)]),
}

TOLD = {
    "a skipped step": (
        Health(),
        [metrics(7, skipped=3, gradient_steps=13)],
        ("nonfinite", False, "update 7: 3 of 16 gradient steps skipped"),
    ),
    "nothing finite for long": (
        Health(stop_after_nonfinite=3),
        BAD[:3],
        ("nonfinite", True, "3 updates in a row ... last good checkpoint is kept"),
    ),
    # A dispatch of several updates counts as many, but not those before a resume.
    "dispatches that are not finite": (
        Health(stop_after_nonfinite=8),
        [metrics(100), metrics(104, **NOTHING_FINITE), metrics(108, **NOTHING_FINITE)],
        ("nonfinite", True, "8 updates in a row"),
    ),
    "nothing finite at first": (
        Health(stop_after_nonfinite=20),
        [metrics(5000, **NOTHING_FINITE)],
        ("nonfinite", False, ""),
    ),
    "nothing finite, and no stop": (
        Health(stop_after_nonfinite=None),
        BAD,
        ("nonfinite", False, ""),
    ),
    # It is not known where no step was taken.
    "nothing finite is no collapse": (
        Health(entropy_floor=0.1, stop_after_nonfinite=None),
        [metrics(n, entropy=0.0, **NOTHING_FINITE) for n in range(1, 3 * ENTROPY_PATIENCE)],
        ("nonfinite", False, ""),
    ),
    "a collapse": (Health(entropy_floor=0.1), LOW, ("entropy", False, "0.05 nats")),
    "a jump": (Health(kl_alarm=0.2), [metrics(5, approx_kl=0.7)], ("kl", False, "0.7")),
    "jumps and a stop": (
        Health(kl_alarm=0.2, stop_after_kl=2),
        [metrics(n, approx_kl=0.7) for n in (1, 2)],
        ("kl", True, ""),
    ),
    "dropped spawns": (
        Health(),
        [metrics(1, dropped=0.25)],
        ("dropped", False, "--max-enemies ... --max-transmissions"),
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_a_run_without_a_sign_is_left_alone(name):
    health, seen = LEFT_ALONE[name]
    assert not findings(health, *seen)
    assert health.sound


@pytest.mark.parametrize("name", TOLD)
def test_a_sign_is_told_by_its_kind_and_only_the_last_one_stops(name):
    health, seen, (kind, stop, said) = TOLD[name]
    found = findings(health, *seen)
    assert {each.kind for each in found} == {kind}
    assert [each.stop for each in found] == [False] * (len(found) - 1) + [stop]
    for part in said.split(" ... "):
        assert part in found[-1].message


def test_what_is_not_finite_is_not_worth_saving_and_a_finite_update_starts_anew():
    health = Health(stop_after_nonfinite=2)
    bad, good = (metrics(1, **NOTHING_FINITE), metrics(2))
    assert not any(found.stop for found in findings(health, bad, good, bad, good, bad))
    assert not health.sound
    findings(health, good, metrics(7, skipped=3, gradient_steps=13))
    assert health.sound, "the other steps were taken"


def test_dropped_spawns_are_told_ever_more_rarely():
    health = Health()
    at = [n for n in range(1, 101) if health.look(metrics(n, dropped=1.0))]
    assert at == [1, 2, 4, 8, 16, 32, 64]


def test_a_stop_by_divergence_needs_an_alarm():
    with pytest.raises(ConfigError, match=r"--stop-after-kl 3 counts updates beyond --kl-alarm"):
        PPOConfig(kl_alarm=None, stop_after_kl=3)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_named(odd):
    for changed, name in (({"value_loss": odd}, "value_loss"), ({"reward": odd}, "kills")):
        health = Health()
        (found,) = health.look(metrics(1, **changed))
        assert name in found.message
        assert not health.sound


UNLEARNED = {
    "siphons": (
        *({"siphons": 1.6}, {"siphons": 0.5}, {"siphons": 0.1}),
        "0.1 siphons a game, after 1.6: siphoning dies out",
    ),
    # As many UNDOs as before do not hide that the other programs are gone.
    "programs": (
        *({"programs": 8.0, "undos": 6.0}, {"programs": 6.6, "undos": 6.0}),
        *({"programs": 6.2, "undos": 6.0}, "0.2 programs a game (without UNDO), after 2: the use"),
    ),
    "owns_undo": (
        *({"owns_undo": 0.8}, {"owns_undo": 0.3}, {"owns_undo": 0.1}),
        "the player owns UNDO in 10% of the games, after 80%",
    ),
}


@pytest.mark.parametrize("kind", UNLEARNED)
def test_a_habit_that_dies_out_is_told_once(kind):
    much, less, few, message = UNLEARNED[kind]
    health = Health.from_config(PPOConfig())
    well = [played(n, **much) for n in range(1, 9)]
    assert not findings(health, *well, *(played(n, **less) for n in range(9, 13)))
    (found,) = findings(health, *(played(n, **few) for n in range(13, 40)))
    assert found.kind == kind
    assert not found.stop
    assert f"update 14: {message}" in found.message
    assert "--teacher-kl" in found.message


@pytest.mark.parametrize(
    ("some", "none"),
    [
        ({"siphons": 0.15}, {"siphons": 0.0}),
        ({"programs": 6.15, "undos": 6.0}, {"programs": 6.0, "undos": 6.0}),
        ({"owns_undo": 0.4}, {"owns_undo": 0.0}),
    ],
)
def test_what_was_never_a_habit_cannot_be_lost(some, none):
    health = Health()
    assert not findings(health, *(played(n, **some) for n in range(1, 9)))
    assert not findings(health, *(played(n, **none) for n in range(9, 99)))


def test_a_resumed_run_remembers_its_habits_and_what_it_told():
    before = [played(n, siphons=1.6, undos=0.5) for n in range(1, 9)]
    after = [played(n, siphons=0.1) for n in range(9, 13)]
    odd = [{**before[0].as_dict(), "siphons": value} for value in (None, 10**400, math.inf)]
    resumed = Health()
    resumed.recall([each.as_dict() for each in before] + odd)
    (found,) = findings(resumed, *after)
    assert "update 10: 0.1 siphons a game, after 1.6" in found.message
    again = Health()
    again.recall(each.as_dict() for each in before + after)
    assert not findings(again, *(played(n, siphons=0.1) for n in range(13, 40)))


@pytest.mark.parametrize(
    ("episode", "told"),
    [
        ({"undos": 60.0}, True),
        # The most of the default recipe, and that of `pretrained@1` in the league no-rewind.
        ({"undos": 36.0}, False),
        ({"undos": 31.0, "length": 400.0}, False),
        ({"undos": 2.0, "length": 700.0}, True),
        ({"undos": 0.5, "length": 700.0}, False),
    ],
)
def test_an_agent_that_plays_turns_for_ever_is_told_once(episode, told):
    health = Health.from_config(PPOConfig(max_steps=1000))
    programs = {"programs": 1.0 + episode["undos"]}
    found = findings(health, *(played(n, **programs, **episode) for n in range(1, 20)))
    assert [each.kind for each in found] == ["undo"] * told
    assert all("UNDOs a game of" in each.message for each in found)
