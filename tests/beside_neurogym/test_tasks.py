"""The tasks with choices, step by step beside NeuroGym's: given trials, no noise."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from neurogym.envs.contextdecisionmaking import ContextDecisionMaking
from neurogym.envs.delaymatchsample import DelayMatchSample
from neurogym.envs.perceptualdecisionmaking import PerceptualDecisionMaking

from hackmatrix_rl.memory_tasks import (
    ContextConfig,
    ContextDecision,
    ContextTrial,
    DelayedMatch,
    DelayedMatchConfig,
    MatchTrial,
    PerceptualConfig,
    PerceptualDecision,
    PerceptualTrial,
)

STEP = 100
"""Milliseconds of a step, NeuroGym's default."""
SEQUENCES = 60
"""Sequences of actions for each trial."""


def made(kind, **periods):
    """NeuroGym's task without noise, with periods in steps."""
    timing = {period: STEP * steps for period, steps in periods.items()}
    return kind(sigma=0.0, timing=timing)


def matches():
    periods = {"fixation": 2, "sample": 3, "delay": 4, "test": 2, "decision": 3}
    task = DelayedMatch(DelayedMatchConfig(**periods))
    other = made(DelayMatchSample, **periods)
    for sample, same in itertools.product((0, 1), (True, False)):
        ours = MatchTrial(jnp.int32(sample), jnp.asarray(same))
        theirs = {"sample_theta": other.theta[sample], "ground_truth": 1 if same else 2}
        yield task, other, ours, theirs


def perceptions():
    periods = {"fixation": 1, "stimulus": 5, "delay": 2, "decision": 2}
    task = PerceptualDecision(PerceptualConfig(**periods))
    other = made(PerceptualDecisionMaking, **periods)
    for stronger, coherence in itertools.product((0, 1), task.config.coherences):
        ours = PerceptualTrial(jnp.int32(stronger), jnp.float32(coherence))
        yield task, other, ours, {"ground_truth": stronger, "coh": coherence}


def contexts():
    periods = {"fixation": 2, "stimulus": 4, "delay": 3, "decision": 2}
    task = ContextDecision(ContextConfig(**periods))
    other = made(ContextDecisionMaking, **periods)
    for context, first, second, coherences in itertools.product(
        (0, 1), (0, 1), (0, 1), itertools.product((5.0, 50.0), (15.0, 50.0))
    ):
        ours = ContextTrial(
            jnp.int32(context),
            jnp.asarray([first, second], jnp.int32),
            jnp.asarray(coherences, jnp.float32),
        )
        counts, rest = (first, second) if context == 0 else (second, first)
        theirs = {
            "context": context,
            "ground_truth": counts + 1,
            "other_choice": rest + 1,
            "coh_0": coherences[0],
            "coh_1": coherences[1],
        }
        yield task, other, ours, theirs


TRIALS = {"match": matches, "perception": perceptions, "context": contexts}


def sequences(length, decision):
    """Actions: none, each choice in each step alone, and at random."""
    yield np.zeros(length, int)
    for step, choice in itertools.product(range(length), (1, 2)):
        yield np.where(np.arange(length) == step, choice, 0)
    generator = np.random.default_rng(0)
    for _ in range(SEQUENCES):
        choices = generator.integers(0, 3, length)
        waits = generator.random(length) < generator.random()
        yield np.where(waits & (np.arange(length) < decision), 0, choices)


def theirs_of(other, trial, actions):
    """What NeuroGym shows before each action, what it pays, and whether the trial ends there."""
    other.new_trial(**trial)
    other.t = other.t_ind = 0
    shown = other.ob[0]
    for action in actions:
        after, reward, _, _, info = other.step(int(action))
        yield shown, reward, info["new_trial"]
        if info["new_trial"]:  # what it shows now is of the next trial
            return
        shown = after


@pytest.mark.parametrize("kind", TRIALS)
def test_each_step_shows_and_pays_what_neurogyms_does(kind):
    compared = 0
    for task, other, ours, trial in TRIALS[kind]():
        play = jax.jit(lambda state, action, task=task: task.play(state, action, key=KEY))
        observe = jax.jit(task.observe)
        began = task.start(key=KEY)
        for actions in sequences(task.length, task.length - task.periods[-1]):
            state = type(began)(ours, began.step, jnp.zeros_like(began.noise))
            for action, (shown, reward, ends) in zip(
                actions, theirs_of(other, trial, actions), strict=False
            ):
                np.testing.assert_allclose(observe(state), shown, atol=1e-6)
                played = play(state, jnp.int32(action))
                assert float(played.reward) == pytest.approx(reward, abs=1e-6)
                assert bool(played.terminated) == ends
                state = played.state
                compared += 1
            assert ends, "each trial comes to its end"
    assert compared > 1000


KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("kind", "task"),
    [(DelayMatchSample, DelayedMatch()), (PerceptualDecisionMaking, PerceptualDecision())],
)
def test_the_default_periods_are_neurogyms(kind, task):
    timing = kind().timing
    assert [steps * STEP for steps in task.periods] == list(timing.values())


def test_the_default_periods_of_contexts_are_neurogyms_as_far_as_they_are_no_draws():
    """750 ms are 7 steps of 100; the delay is drawn there, with 600 ms in the middle."""
    timing = ContextDecisionMaking().timing
    fixation, stimulus, delay, decision = ContextDecision().periods
    assert (fixation * STEP, decision * STEP) == (timing["fixation"], timing["decision"])
    assert stimulus == timing["stimulus"] // STEP
    assert delay * STEP == 600
