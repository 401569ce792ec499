"""NeuroGym's tasks of decisions about noisy stimuli, and its delayed match to sample."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.env.memory_tasks._trial_task import (
    ChoiceTask,
    chance_to_see,
    check_coherences,
    check_number,
    check_steps,
)


def _mean_chance(coherences: Iterable[float], steps: int, noise: float) -> float:
    """The probability of identifying the stronger stimulus, averaged over the coherences."""
    chances = [chance_to_see(each / 100, steps, noise) for each in coherences]
    return sum(chances) / len(chances)


@dataclass(frozen=True)
class PerceptualConfig:
    """The periods of perceptual decision making, in steps, and its difficulty.

    The defaults are NeuroGym's at 100 ms per step, without its noise of 0.1.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 1  #: Nothing is shown, 1 or more.
    stimulus: int = 20  #: The stimuli are shown, 1 or more.
    delay: int = 0  #: Nothing is shown, 0 or more.
    decision: int = 1  #: The player chooses, 1 or more.
    #: The possible differences of the stimuli, in percent.
    coherences: tuple[float, ...] = (0.0, 6.4, 12.8, 25.6, 51.2)
    noise: float = 0.0  #: Standard deviation of the noise on each stimulus per step; 0 or more.

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "stimulus": 1, "delay": 0, "decision": 1})
        object.__setattr__(self, "coherences", check_coherences(self.coherences))
        object.__setattr__(self, "noise", check_number("noise", self.noise))


class PerceptualTrial(eqx.Module):
    """The random variables of a trial."""

    stronger: Int32[Array, "*batch"]  #: Index of the stronger stimulus, 0 or 1.
    coherence: Float32[Array, "*batch"]  #: Difference of the stimuli, in percent.


@final
class PerceptualDecision(ChoiceTask):
    """Two noisy stimuli: choice 1 if the first is stronger, 2 if the second is.

    The observation is the fixation signal and the stimuli, which are 0.5 plus and minus half the
    coherence.

    Source: Britten et al. 1992, "The analysis of visual motion: a comparison of neuronal and
    psychophysical performance"; NeuroGym's `PerceptualDecisionMaking-v0`.

    Attributes:
        config: periods, coherences and noise.
    """

    config: PerceptualConfig = eqx.field(static=True, default=PerceptualConfig())
    seen = 3  #: Fixation, and two stimuli.

    @property
    def best_return(self) -> float:
        """The probability of identifying the stronger stimulus, averaged over the coherences."""
        return _mean_chance(self.config.coherences, self.config.stimulus, self.noise)

    def draw_trial(self, *, key: Key[Array, ""]) -> PerceptualTrial:
        """A trial with a uniform stronger stimulus and a uniform coherence."""
        stronger_key, coherence_key = jax.random.split(key)
        return PerceptualTrial(
            jax.random.randint(stronger_key, (), 0, 2),
            jax.random.choice(coherence_key, jnp.asarray(self.config.coherences, jnp.float32)),
        )

    def show(self, trial: PerceptualTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The stimuli in their period."""
        return jnp.where(period == 1, two_stimuli(trial.stronger, trial.coherence), 0.0)

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """Both stimuli in their period."""
        return period == 1

    def answer(self, trial: PerceptualTrial) -> Int32[Array, ""]:
        """The number of the stronger stimulus, from 1."""
        return trial.stronger + 1


def two_stimuli(
    stronger: Int32[Array, ""], coherence: Float32[Array, ""]
) -> Float32[Array, " two"]:
    """Two stimuli without noise."""
    return 0.5 + jnp.where(jnp.arange(2) == stronger, coherence, -coherence) / 200.0


@dataclass(frozen=True)
class ContextConfig(PerceptualConfig):
    """The periods of context-dependent decision making, in steps, and its difficulty.

    The fields are as in `PerceptualConfig`. Each pair of a trial has its own coherence. The
    defaults are NeuroGym's at 100 ms per step, without its noise of 0.1. NeuroGym's delay is
    random; its mean, before it is clipped, is 600 ms.
    """

    fixation: int = 3
    stimulus: int = 7
    delay: int = 6
    coherences: tuple[float, ...] = (5.0, 15.0, 50.0)


class ContextTrial(eqx.Module):
    """The random variables of a trial."""

    context: Int32[Array, "*batch"]  #: Index of the relevant pair, 0 or 1.
    stronger: Int32[Array, "*batch two"]  #: Index of the stronger stimulus of each pair, 0 or 1.
    coherence: Float32[Array, "*batch two"]  #: Difference of each pair's stimuli, in percent.


@final
class ContextDecision(ChoiceTask):
    """Two pairs of stimuli, and a cue for the relevant pair.

    Choice 1 is correct if the first stimulus of the relevant pair is stronger, else 2.

    The observation is the fixation signal, the first pair, the second pair, and the cue: the
    relevant pair, one-hot, in every step. Only the pairs are noisy.

    Source: Mante et al. 2013, "Context-dependent computation by recurrent dynamics in prefrontal
    cortex"; NeuroGym's `ContextDecisionMaking-v0`.

    Attributes:
        config: periods, coherences and noise.
    """

    config: ContextConfig = eqx.field(static=True, default=ContextConfig())
    seen = 7  #: Fixation, two pairs, and the cue.

    @property
    def best_return(self) -> float:
        """The probability of identifying the stronger stimulus, averaged over the coherences."""
        return _mean_chance(self.config.coherences, self.config.stimulus, self.noise)

    def draw_trial(self, *, key: Key[Array, ""]) -> ContextTrial:
        """A trial with independent, uniform variables."""
        context_key, stronger_key, coherence_key = jax.random.split(key, 3)
        choices = jnp.asarray(self.config.coherences, jnp.float32)
        return ContextTrial(
            jax.random.randint(context_key, (), 0, 2),
            jax.random.randint(stronger_key, (2,), 0, 2),
            jax.random.choice(coherence_key, choices, (2,)),
        )

    def show(self, trial: ContextTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The cue always, the stimuli in their period."""
        pairs = jax.vmap(two_stimuli)(trial.stronger, trial.coherence).ravel()
        cue = (jnp.arange(2) == trial.context).astype(jnp.float32)
        return jnp.concatenate([jnp.where(period == 1, pairs, 0.0), cue])

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """The pairs in their period."""
        return (period == 1) & (jnp.arange(6) < 4)

    def answer(self, trial: ContextTrial) -> Int32[Array, ""]:
        """1 if the first stimulus of the relevant pair is stronger, else 2."""
        return trial.stronger[trial.context] + 1


@dataclass(frozen=True)
class MultiSensoryConfig:
    """The periods of multi-sensory integration, in steps, and its difficulty.

    The defaults are NeuroGym's at 100 ms per step, without its noise of 0.1.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 3  #: Nothing is shown, 1 or more.
    stimulus: int = 7  #: The stimuli are shown, 1 or more.
    decision: int = 1  #: The player chooses, 1 or more.
    #: The possible sums of the differences of both pairs, in percent.
    coherences: tuple[float, ...] = (5.0, 15.0, 50.0)
    noise: float = 0.0  #: Standard deviation of the noise on each stimulus per step; 0 or more.

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "stimulus": 1, "decision": 1})
        object.__setattr__(self, "coherences", check_coherences(self.coherences))
        object.__setattr__(self, "noise", check_number("noise", self.noise))


class MultiSensoryTrial(eqx.Module):
    """The random variables of a trial."""

    stronger: Int32[Array, "*batch"]  #: Number of the stronger stimulus of each pair, 0 or 1.
    coherence: Float32[Array, "*batch"]  #: How far both pairs together are apart, in percent.
    share: Float32[Array, "*batch"]  #: The part of the coherence that the first pair has, 0 to 1.


@final
class MultiSensoryIntegration(ChoiceTask):
    """Two pairs of stimuli, one per sense, with the same stronger stimulus and a shared coherence.

    Choice 1 is correct if the first stimulus of each pair is stronger, else 2.

    The observation is the fixation signal, the first pair and the second pair. In NeuroGym the
    fixation signal is noisy, too.

    Source: NeuroGym's `MultiSensoryIntegration-v0`.

    Attributes:
        config: periods, coherences and noise.
    """

    PERIODS = ("fixation", "stimulus", "decision")

    config: MultiSensoryConfig = eqx.field(static=True, default=MultiSensoryConfig())
    seen = 5  #: Fixation, and two pairs.

    @property
    def best_return(self) -> float:
        """The probability that the sum of both differences has the correct sign.

        The two shares of the coherence are exchangeable, so the sum is a sufficient statistic. Its
        variance is twice the variance of one difference.
        """
        config = self.config
        return _mean_chance(config.coherences, config.stimulus, self.noise * math.sqrt(2))

    def draw_trial(self, *, key: Key[Array, ""]) -> MultiSensoryTrial:
        """A trial with independent, uniform variables."""
        stronger_key, coherence_key, share_key = jax.random.split(key, 3)
        return MultiSensoryTrial(
            jax.random.randint(stronger_key, (), 0, 2),
            jax.random.choice(coherence_key, jnp.asarray(self.config.coherences, jnp.float32)),
            jax.random.uniform(share_key, (), jnp.float32),
        )

    def show(
        self, trial: MultiSensoryTrial, period: Int32[Array, ""]
    ) -> Float32[Array, " stimuli"]:
        """The stimuli in their period."""
        shares = jnp.stack([trial.share, 1 - trial.share])
        pairs = jax.vmap(two_stimuli, (None, 0))(trial.stronger, trial.coherence * shares)
        return jnp.where(period == 1, pairs.ravel(), 0.0)

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """All stimuli in their period."""
        return period == 1

    def answer(self, trial: MultiSensoryTrial) -> Int32[Array, ""]:
        """The number of the stronger stimulus, from 1."""
        return trial.stronger + 1


@dataclass(frozen=True)
class DelayedMatchConfig:
    """The periods of a delayed match to sample, in steps, and its noise.

    The defaults are NeuroGym's at 100 ms per step, without its noise of 0.1.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 3  #: Nothing is shown, 1 or more.
    sample: int = 5  #: The sample is shown, 1 or more.
    delay: int = 10  #: Nothing is shown, 0 or more.
    test: int = 5  #: The test is shown, 1 or more.
    decision: int = 9  #: The player chooses, 1 or more.
    #: Standard deviation of the noise on each stimulus per step of sample and test; 0 or more.
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "sample": 1, "delay": 0, "test": 1, "decision": 1})
        object.__setattr__(self, "noise", check_number("noise", self.noise))


class MatchTrial(eqx.Module):
    """The random variables of a trial."""

    sample: Int32[Array, "*batch"]  #: Index of the sample, 0 or 1.
    matches: Bool[Array, "*batch"]  #: Whether the test is the same stimulus.


@final
class DelayedMatch(ChoiceTask):
    """A sample, a delay and a test: choice 1 if sample and test are the same, else 2.

    The observation is the fixation signal and the current stimulus, one-hot.

    Source: Miller, Erickson and Desimone 1996, "Neural mechanisms of visual working memory in
    prefrontal cortex of the macaque"; NeuroGym's `DelayMatchSample-v0`.

    Attributes:
        config: periods and noise.
    """

    PERIODS = ("fixation", "sample", "delay", "test", "decision")

    config: DelayedMatchConfig = eqx.field(static=True, default=DelayedMatchConfig())
    seen = 3  #: Fixation, and two stimuli.

    @property
    def best_return(self) -> float:
        """The probability of identifying both stimuli, or neither."""
        sample, test = (
            chance_to_see(1.0, steps, self.noise)
            for steps in (self.config.sample, self.config.test)
        )
        return sample * test + (1 - sample) * (1 - test)

    def draw_trial(self, *, key: Key[Array, ""]) -> MatchTrial:
        """A trial with a uniform sample and a match with probability 1/2."""
        sample_key, match_key = jax.random.split(key)
        return MatchTrial(
            jax.random.randint(sample_key, (), 0, 2), jax.random.bernoulli(match_key, 0.5)
        )

    def show(self, trial: MatchTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The sample and the test in their periods."""
        tested = jnp.where(trial.matches, trial.sample, 1 - trial.sample)
        which = jnp.where(period == 1, trial.sample, tested)
        return (self.noisy(period) & (jnp.arange(2) == which)).astype(jnp.float32)

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """Both stimuli in the periods of sample and test."""
        return (period == 1) | (period == 3)

    def answer(self, trial: MatchTrial) -> Int32[Array, ""]:
        """1 for a match, 2 for none."""
        return jnp.where(trial.matches, jnp.int32(1), jnp.int32(2))
