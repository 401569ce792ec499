"""The tasks in trials, step by step beside NeuroGym's: given trials, no noise."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from neurogym.envs.contextdecisionmaking import ContextDecisionMaking
from neurogym.envs.delaycomparison import DelayComparison
from neurogym.envs.delaymatchsample import DelayMatchSample
from neurogym.envs.gonogo import GoNogo
from neurogym.envs.intervaldiscrimination import IntervalDiscrimination as TheirDiscrimination
from neurogym.envs.multisensory import MultiSensoryIntegration as TheirIntegration
from neurogym.envs.perceptualdecisionmaking import PerceptualDecisionMaking
from neurogym.envs.probabilisticreasoning import ProbabilisticReasoning as TheirReasoning
from neurogym.envs.readysetgo import MotorTiming
from neurogym.envs.readysetgo import ReadySetGo as TheirReadySetGo

from hackmatrix_rl.env.memory_tasks import (
    ComparisonTrial,
    ContextConfig,
    ContextDecision,
    ContextTrial,
    DelayedComparison,
    DelayedComparisonConfig,
    DelayedMatch,
    DelayedMatchConfig,
    GoNoGo,
    GoNoGoConfig,
    GoNoGoTrial,
    IntervalDiscrimination,
    IntervalDiscriminationConfig,
    IntervalTiming,
    IntervalTimingConfig,
    IntervalTimingTrial,
    IntervalTrial,
    MatchTrial,
    MultiSensoryConfig,
    MultiSensoryIntegration,
    MultiSensoryTrial,
    PerceptualConfig,
    PerceptualDecision,
    PerceptualTrial,
    ProbabilisticReasoning,
    ProbabilisticReasoningConfig,
    ReadySetGo,
    ReadySetGoConfig,
    ReadySetGoTrial,
    ReasoningTrial,
)

STEP = 100
"""Milliseconds of a step, NeuroGym's default."""
SHORT_STEP = 80
"""The same in its tasks of time."""
SEQUENCES = 60
"""Sequences of actions for each trial."""


def made(kind, **periods):
    """NeuroGym's task without noise, with periods in steps."""
    return without_noise(kind, STEP, periods, sigma=0.0)


def without_noise(kind, step, periods, **settings):
    """NeuroGym's task, with periods in steps of so many milliseconds."""
    timing = {period: step * steps for period, steps in periods.items()}
    return kind(timing=timing, **settings)


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


def senses():
    periods = {"fixation": 2, "stimulus": 4, "decision": 2}
    task = MultiSensoryIntegration(MultiSensoryConfig(**periods))
    other = made(TheirIntegration, **periods)
    for stronger, coherence, share in itertools.product((0, 1), (5.0, 50.0), (0.0, 0.3, 1.0)):
        numbers = jnp.float32(coherence), jnp.float32(share)
        ours = MultiSensoryTrial(jnp.int32(stronger), *numbers)
        yield task, other, ours, {"ground_truth": stronger, "coh": coherence, "coh_prop": share}


def signs():
    for fixation in (0, 2):
        periods = {"fixation": fixation, "stimulus": 2, "delay": 3, "decision": 3}
        other = without_noise(GoNogo, STEP, periods)
        for go in (0, 1):
            ours = GoNoGoTrial(jnp.bool_(go))
            yield GoNoGo(GoNoGoConfig(**periods)), other, ours, {"ground_truth": go}


def comparisons():
    periods = {"fixation": 2, "stimulus1": 2, "delay": 3, "stimulus2": 1, "decision": 2}
    task = DelayedComparison(DelayedComparisonConfig(*periods.values()))
    other = made(DelayComparison, **periods)
    for (number, pair), first in itertools.product(enumerate(other.vpairs), (True, False)):
        ours = ComparisonTrial(jnp.int32(number), jnp.bool_(first))
        yield task, other, ours, {"ground_truth": 1 if first else 2, "vpair": pair}


class Answers(np.random.RandomState):
    """NeuroGym draws the answer from this: it is 2 for a number of 0, and 1 for one of 1."""

    second = False

    def rand(self, *shape):
        return 0.0 if self.second else 1.0


def reasonings():
    fixed = {"fixation": 2, "decision": 2} | {f"stimulus{n}": 2 for n in range(3)}
    task = ProbabilisticReasoning(
        ProbabilisticReasoningConfig(2, 2, 0, 3, 2, 3, weights=(-10, -0.5, 0.3, 0.7))
    )
    for kinds, places, second, delay in (
        ((0, 1, 2), (2, 0, 1), True, 0),
        ((3, 3, 2), (0, 1, 2), False, 2),
        ((1, 0, 1), (1, 2, 0), True, 3),
        ((2, 1, 3), (2, 1, 0), False, 1),
    ):
        other = without_noise(
            TheirReasoning,
            STEP,
            fixed | {"delay": delay},
            shape_weight=task.config.weights,
            n_loc=3,
        )
        other.rng = Answers()
        other.rng.second = second
        arrays = jnp.asarray(kinds, jnp.int32), jnp.asarray(places, jnp.int32)
        ours = ReasoningTrial(*arrays, jnp.bool_(second), jnp.int32(delay))
        yield task, other, ours, {"shapes": kinds, "locs": places}


def durations():
    task = IntervalDiscrimination(IntervalDiscriminationConfig(2, 1, 3, 0, 4, 2, 3))
    for first, delay, second in itertools.product((1, 2, 3), (0, 4), (1, 2, 3)):
        drawn = {"stim1": first, "delay1": delay, "stim2": second}
        fixed = {"fixation": 2, "delay2": 2, "decision": 3}
        ours = IntervalTrial(jnp.int32(first), jnp.int32(delay), jnp.int32(second))
        yield task, without_noise(TheirDiscrimination, SHORT_STEP, drawn | fixed), ours, {}


def timings():
    task = IntervalTiming(IntervalTimingConfig(2, 1, 4, 2, 3, 9))
    for which, cue in itertools.product((0, 1), (1, 4)):
        periods = {"fixation": 2, "cue": cue, "set": 2}
        other = without_noise(MotorTiming, SHORT_STEP, periods)
        other.intervals = [SHORT_STEP * interval for interval in task.intervals]
        ours = IntervalTimingTrial(jnp.int32(which), jnp.int32(cue))
        yield task, other, ours, {"production_ind": which}


def measures():
    for ready, set_signal, gain, margin in ((1, 1, 1, 0.2), (2, 1, 2, 0.2), (2, 3, 1, 0.5)):
        task = ReadySetGo(ReadySetGoConfig(2, ready, 3, 7, set_signal, gain, margin))
        for measure in (3, 4, 7):
            periods = {"fixation": 2, "ready": ready, "measure": measure, "set": set_signal}
            other = without_noise(
                TheirReadySetGo, SHORT_STEP, periods, gain=gain, prod_margin=margin
            )
            yield task, other, ReadySetGoTrial(jnp.int32(measure)), {}


TRIALS = {
    "match": matches,
    "perception": perceptions,
    "context": contexts,
    "senses": senses,
    "signs": signs,
    "comparison": comparisons,
    "reasoning": reasonings,
    "durations": durations,
    "timing": timings,
    "measures": measures,
}


def sequences(task):
    """Actions: none, each choice in each step alone, and at random."""
    length, decision = task.length, task.length - task.periods[-1]
    yield np.zeros(length, int)
    for step, choice in itertools.product(range(length), range(1, task.num_actions)):
        yield np.where(np.arange(length) == step, choice, 0)
    generator = np.random.default_rng(0)
    for _ in range(SEQUENCES):
        choices = generator.integers(0, task.num_actions, length)
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


@eqx.filter_jit
def observed(task, state):
    return task.observe(state)


@eqx.filter_jit
def play(task, state, action):
    return task.play(state, action, key=KEY)


@pytest.mark.parametrize("kind", TRIALS)
def test_each_step_shows_and_pays_what_neurogyms_does(kind):
    compared = 0
    for task, other, ours, trial in TRIALS[kind]():
        began = task.start(key=KEY)
        for actions in sequences(task):
            state = type(began)(ours, began.step, jnp.zeros_like(began.noise))
            for action, (shown, reward, ends) in zip(
                actions, theirs_of(other, trial, actions), strict=False
            ):
                np.testing.assert_allclose(observed(task, state), shown, atol=1e-6)
                played = play(task, state, jnp.int32(action))
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


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        (GoNogo, GoNoGo()),
        (DelayComparison, DelayedComparison()),
        (TheirIntegration, MultiSensoryIntegration()),
    ],
)
def test_the_default_periods_are_neurogyms_in_whole_steps(kind, task):
    timing = kind().timing
    assert list(task.periods) == [milliseconds // STEP for milliseconds in timing.values()]


def drawn_steps(other, period):
    """The shortest and the longest of many draws of a period, in steps."""
    draws = [other.sample_time(period) // other.dt for _ in range(2000)]
    return min(draws), max(draws)


def test_the_default_ranges_of_drawn_periods_are_neurogyms():
    config, other = IntervalDiscriminationConfig(), TheirDiscrimination()
    fixed = {"fixation": config.fixation, "delay2": config.delay, "decision": config.decision}
    assert fixed == {period: other.timing[period] // SHORT_STEP for period in fixed}
    assert drawn_steps(other, "stim1") == (config.shortest, config.longest)
    assert drawn_steps(other, "stim2") == (config.shortest, config.longest)
    assert drawn_steps(other, "delay1") == (config.shortest_delay, config.longest_delay)

    config, other = ProbabilisticReasoningConfig(), TheirReasoning()
    assert list(config.weights) == other.shape_weight
    assert config.shapes == other.n_loc
    assert config.fixation == config.decision == config.stimulus == other.timing["fixation"] // STEP
    assert drawn_steps(other, "delay") == (config.shortest_delay, config.longest_delay)

    config, other = ReadySetGoConfig(), TheirReadySetGo()
    fixed = {"fixation": config.fixation, "ready": config.ready, "set": config.set}
    assert fixed == {period: other.timing[period] // SHORT_STEP for period in fixed}
    assert drawn_steps(other, "measure") == (config.shortest, config.longest)
    assert (config.gain, config.margin) == (other.gain, other.prod_margin)

    config, other = IntervalTimingConfig(), MotorTiming()
    assert config.fixation == other.timing["fixation"] // SHORT_STEP
    assert drawn_steps(other, "cue") == (config.shortest_cue, config.longest_cue)
    assert [config.short, config.long] == [round(ms / SHORT_STEP) for ms in other.intervals]
    assert config.margin == other.prod_margin
