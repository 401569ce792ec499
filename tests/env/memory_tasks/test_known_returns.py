"""The known returns of trials, against cases by hand and players that are tried out."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.env.memory_tasks import (
    DelayedComparison,
    DelayedComparisonConfig,
    GoNoGo,
    GoNoGoConfig,
    IntervalDiscrimination,
    IntervalDiscriminationConfig,
    IntervalTiming,
    IntervalTimingConfig,
    IntervalTimingTrial,
    MultiSensoryConfig,
    MultiSensoryIntegration,
    ProbabilisticReasoning,
    ProbabilisticReasoningConfig,
    ReadySetGo,
    ReadySetGoConfig,
    ReadySetGoTrial,
    TrialState,
)

pytestmark = pytest.mark.search

THREE = math.log10(3)
"""Odds of 3 to 1, so a probability of 3/4."""


def reasoning(shapes, *weights):
    return ProbabilisticReasoning(ProbabilisticReasoningConfig(shapes=shapes, weights=weights))


@pytest.mark.parametrize(
    ("task", "best", "memoryless"),
    [
        (GoNoGo(), (1 + 0) / 2, (1 - 0.5) / 2),
        # A sum of 0.4 with the noise of four stimuli, 0.4: one standard deviation.
        (MultiSensoryIntegration(MultiSensoryConfig(1, 1, 1, (40,), 0.2)), 0.841345, 0.5),
        # (1, 0.5) or (0.5, 1): a distance of sqrt(0.5), two standard deviations from the middle.
        (
            DelayedComparison(
                DelayedComparisonConfig(1, 4, 1, 4, 1, ((2, 1),), noise=math.sqrt(0.5) / 2)
            ),
            0.977250,
            0.5,
        ),
        (reasoning(1, THREE, -THREE), 3 / 4, 1 / 2),
        # Twice 9 to 1, twice even: 0.9 / 2 + 0.5 / 2.
        (reasoning(2, THREE, -THREE), 0.7, 1 / 2),
        (reasoning(1, THREE, 0.0), (3 / 4 + 1 / 2) / 2, (3 / 4 + 1 / 2) / 2),
        # Of 25 pairs, 10 have a longer first stimulus.
        (IntervalDiscrimination(), 1, 15 / 25),
        # Only the step after the first pays: q (1 - q) is 1/4 at most.
        (IntervalTiming(IntervalTimingConfig(short=1, long=1, margin=0)), 1, 1 / 4),
        # The first step pays after one measure, the second after the other: (1 - q) (1 + q) / 2.
        (ReadySetGo(ReadySetGoConfig(shortest=1, longest=2, margin=0)), 1, 1 / 2),
        # The signal hides the right step of the short interval, which is 1 too early of 1.8125.
        (
            ReadySetGo(ReadySetGoConfig(shortest=1, longest=1, set=2, margin=1.5)),
            (1 - 1 / 1.8125) ** 1.5,
            (1 - 1 / 1.8125) ** 1.5,
        ),
    ],
)
def test_the_known_returns_are_those_by_hand(task, best, memoryless):
    assert task.best_return == pytest.approx(best, abs=1e-5)
    assert task.memoryless_return == pytest.approx(memoryless, abs=1e-5)


def test_the_best_return_of_reasoning_is_a_mean_over_all_shapes():
    task = ProbabilisticReasoning()
    sums = np.array([sum(each) for each in itertools.product(task.config.weights, repeat=4)])
    likelier = np.maximum(1 / (1 + 10**sums), 1 / (1 + 10**-sums))
    assert task.best_return == pytest.approx(np.mean(likelier), abs=1e-9)


@pytest.mark.parametrize("noise", [0.005, 0.05, 0.3, 3.0])
def test_the_best_return_of_a_comparison_does_not_depend_on_the_lattice(noise):
    """Against a sum over other places, which are drawn: the larger of two probabilities."""
    config = DelayedComparisonConfig(first=2, second=3, noise=noise)
    spreads = noise / np.sqrt([config.first, config.second])
    means = np.array([*config.shown, *((b, a) for a, b in config.shown)])
    generator = np.random.default_rng(0)
    seen = means[generator.integers(0, 10, 200_000)]
    seen = seen + generator.normal(size=seen.shape) * spreads
    errors = ((seen[:, None] - means) / spreads) ** 2
    likelihoods = np.exp(-errors.sum(axis=2) / 2 + errors.sum(axis=2).min(axis=1)[:, None] / 2)
    orders = likelihoods.reshape(-1, 2, 5).sum(axis=2)
    likelier = orders.max(axis=1) / orders.sum(axis=1)
    error = 5 * np.std(likelier) / math.sqrt(len(seen)) + 1e-9
    assert DelayedComparison(config).best_return == pytest.approx(likelier.mean(), abs=error)


def timing_trials(task):
    return [
        (IntervalTimingTrial(jnp.int32(which), jnp.int32(2)), task.config.fixation + 2)
        for which in (0, 1)
    ]


def ready_set_go_trials(task):
    measures = range(task.config.shortest, task.config.longest + 1)
    return [(ReadySetGoTrial(jnp.int32(n)), task.config.fixation + n) for n in measures]


@pytest.mark.parametrize(
    ("task", "trials_of"),
    [
        (IntervalTiming(IntervalTimingConfig(1, 2, 3, 1, 4, 7)), timing_trials),
        (ReadySetGo(ReadySetGoConfig(1, 1, 3, 6, 2, 2)), ready_set_go_trials),
    ],
    ids=["timing", "ready-set-go"],
)
def test_no_probability_of_going_gets_more_than_the_known_number(task, trials_of):
    """Goes at each step of each trial; who has no memory mixes them by one probability."""
    steps = jnp.arange(task.length)
    go = jax.jit(
        jax.vmap(
            lambda trial, step: (
                task.play(
                    TrialState(trial, step, jnp.zeros(task.seen, jnp.float32)),
                    jnp.int32(1),
                    key=jax.random.key(0),
                ).reward
            ),
            (None, 0),
        )
    )
    rows = []
    for trial, until_set in trials_of(task):
        last = until_set + task.config.set
        rows.append(np.pad(np.asarray(go(trial, steps))[last:], (0, last)))
    paid = np.maximum(np.mean(rows, axis=0), 0)
    waiting = np.linspace(0, 1, 20_001)[:, None]
    means = np.sum((1 - waiting) * waiting ** np.arange(len(paid)) * paid, axis=1)
    assert np.max(rows, axis=1).mean() == pytest.approx(task.best_return, abs=1e-6)
    assert means.max() == pytest.approx(task.memoryless_return, abs=1e-6)


def drawn(task, count=4000):
    keys = jax.random.split(jax.random.key(0), count)
    return jax.vmap(lambda key: task.draw_trial(key=key))(keys)


@pytest.mark.parametrize(
    ("task", "field", "shortest", "longest"),
    [
        (IntervalDiscrimination(), "first", 3, 7),
        (IntervalDiscrimination(), "second", 3, 7),
        (IntervalDiscrimination(), "delay", 10, 18),
        (IntervalTiming(), "interval", 0, 1),
        (IntervalTiming(), "cue", 12, 37),
        (ReadySetGo(), "measure", 10, 18),
        (ProbabilisticReasoning(), "delay", 4, 5),
        (DelayedComparison(), "pair", 0, 4),
        (GoNoGo(), "go", 0, 1),
    ],
)
def test_what_is_drawn_is_uniform_up_to_both_ends(task, field, shortest, longest):
    values, counts = np.unique(np.asarray(getattr(drawn(task), field)), return_counts=True)
    assert values.tolist() == list(range(shortest, longest + 1))
    share = 1 / len(values)
    np.testing.assert_allclose(counts / 4000, share, atol=4 * math.sqrt(share / 4000))


def test_shapes_have_places_of_their_own_and_answers_by_their_weights():
    task = reasoning(2, THREE, -0.5)
    trial = drawn(task)
    assert (np.sort(trial.places, axis=1) == [0, 1]).all()
    assert 0.4 < np.mean(np.asarray(trial.places)[:, 0]) < 0.6
    both = np.asarray(trial.kinds).sum(axis=1)
    for count in range(3):
        odds = 10 ** (THREE * (2 - count) - 0.5 * count)
        found = np.mean(np.asarray(trial.second)[both == count])
        assert found == pytest.approx(odds / (1 + odds), abs=0.06)


@pytest.mark.parametrize(
    ("error", "pays"), [(0, 1), (1, (1 - 1 / 2.3125) ** 1.5), (2, 0.1), (-2, 0.1), (3, 0)]
)
def test_an_interval_pays_less_around_the_right_one(error, pays):
    """The margin of 10 steps is 2, and 0.3125 more are allowed; (1 - 2 / 2.3125) ** 1.5 is 0.05."""
    task, trial = IntervalTiming(), IntervalTimingTrial(jnp.int32(0), jnp.int32(12))
    found = task.pay(trial, jnp.int32(1), jnp.int32(10 + error))
    assert float(found) == pytest.approx(pays, abs=1e-6)


@eqx.filter_jit
def play(task, state, action):
    return task.play(state, action, key=jax.random.key(0))


def rewards_of(task, trial, actions):
    """The reward of each step, and whether the trial ends there."""
    state = TrialState(trial, jnp.int32(0), jnp.zeros(task.seen, jnp.float32))
    for action in actions:
        played = play(task, state, jnp.int32(action))
        yield round(float(played.reward), 3), bool(played.terminated)
        state = played.state


def test_going_and_waiting_pay_by_the_sign():
    task = GoNoGo(GoNoGoConfig(1, 1, 1, 2))
    go, stay = (type(drawn(task, 1))(jnp.bool_(sign)) for sign in (1, 0))
    before = [(-0.1, False), (0, False), (0, False)]
    assert list(rewards_of(task, go, [1, 1, 1, 1])) == [*before, (1, True)]
    assert list(rewards_of(task, stay, [1, 1, 1, 1])) == [*before, (-0.5, True)]
    assert list(rewards_of(task, go, [1, 1, 1, 0, 1])) == [*before, (0, False), (1, True)]
    assert list(rewards_of(task, go, [1, 1, 1, 0, 0])) == [*before, (0, False), (-0.5, True)]
    assert list(rewards_of(task, stay, [1, 1, 1, 0, 0])) == [*before, (0, False), (0, True)]


def test_a_choice_before_the_decision_of_reasoning_costs_each_time():
    task = ProbabilisticReasoning(ProbabilisticReasoningConfig(1, 1, 1, 2, 2, 1, (-1, 1)))
    trial = jax.tree.map(lambda leaf: leaf[0], drawn(task, 1))
    for delay in (1, 2):
        trial = type(trial)(trial.kinds, trial.places, jnp.bool_(True), jnp.int32(delay))
        early = [(-0.1, False)] * (2 + delay)
        assert list(rewards_of(task, trial, [1] * (2 + delay) + [2])) == [*early, (1, True)]
    assert list(rewards_of(task, trial, [0, 0, 0, 0, 1]))[-1] == (0, True)


def test_equal_intervals_are_answered_like_a_longer_second_one():
    task = IntervalDiscrimination(IntervalDiscriminationConfig(1, 1, 2, 0, 0, 0))
    trials = {(a, b): 1 if a > b else 2 for a, b in itertools.product((1, 2), repeat=2)}
    for (first, second), right in trials.items():
        trial = type(drawn(task, 1))(jnp.int32(first), jnp.int32(0), jnp.int32(second))
        waits = [0] * (1 + first + second)
        for choice in (1, 2):
            *_, last = rewards_of(task, trial, [*waits, choice])
            assert last == (float(choice == right), True)
