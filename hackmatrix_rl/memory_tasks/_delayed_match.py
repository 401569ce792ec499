"""Delayed match to sample: is the second stimulus the first?"""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.memory_tasks._checks import check_number, check_steps
from hackmatrix_rl.memory_tasks._choice_task import ChoiceTask, chance_to_see


@dataclass(frozen=True)
class DelayedMatchConfig:
    """The periods of a delayed match to sample, in steps, and its noise.

    The defaults are NeuroGym's at 100 ms a step, without its noise of 0.1.

    Attributes:
        fixation: nothing is shown, 1 or more.
        sample: the sample is shown, 1 or more.
        delay: nothing is shown, 0 or more.
        test: the test is shown, 1 or more.
        decision: the player chooses, 1 or more.
        noise: standard deviation on each stimulus, in each step of sample and test; 0 or more.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 3
    sample: int = 5
    delay: int = 10
    test: int = 5
    decision: int = 9
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "sample": 1, "delay": 0, "test": 1, "decision": 1})
        object.__setattr__(self, "noise", check_number("noise", self.noise))


class MatchTrial(eqx.Module):
    """The random variables of a trial.

    Attributes:
        sample: number of the stimulus, 0 or 1.
        matches: whether the test is the same stimulus.
    """

    sample: Int32[Array, "*batch"]
    matches: Bool[Array, "*batch"]


@final
class DelayedMatch(ChoiceTask):
    """A sample, a delay, a test: choice 1 says that they are the same, 2 that they are not.

    Seen are whether to fixate, and two stimuli, one of which is 1.

    Source: Miller, Erickson and Desimone 1996, "Neural mechanisms of visual working memory in
    prefrontal cortex of the macaque"; NeuroGym's `DelayMatchSample-v0`.

    Attributes:
        config: periods and noise.
    """

    config: DelayedMatchConfig = eqx.field(static=True, default=DelayedMatchConfig())

    @property
    def seen(self) -> int:
        """The length of the observation: fixation, and two stimuli."""
        return 3

    @property
    def periods(self) -> tuple[int, ...]:
        """The steps of fixation, sample, delay, test, decision."""
        periods = self.config
        return periods.fixation, periods.sample, periods.delay, periods.test, periods.decision

    @property
    def noise(self) -> float:
        """The noise of the config."""
        return self.config.noise

    @property
    def best_return(self) -> float:
        """The probability of being right about both stimuli, or wrong about both."""
        sample, test = (
            chance_to_see(1.0, steps, self.noise)
            for steps in (self.config.sample, self.config.test)
        )
        return sample * test + (1 - sample) * (1 - test)

    def draw(self, *, key: Key[Array, ""]) -> MatchTrial:
        """A trial with a uniform sample and a match with probability 1/2."""
        sample_key, match_key = jax.random.split(key)
        return MatchTrial(
            jax.random.randint(sample_key, (), 0, 2), jax.random.bernoulli(match_key, 0.5)
        )

    def show(
        self, trial: MatchTrial, period: Int32[Array, ""]
    ) -> tuple[Float32[Array, " seen"], Bool[Array, " seen"]]:
        """The stimuli in the periods of sample and test, with noise on them."""
        tested = jnp.where(trial.matches, trial.sample, 1 - trial.sample)
        shows = (period == 1) | (period == 3)
        which = jnp.where(period == 1, trial.sample, tested)
        stimuli = shows & (jnp.arange(2) == which)
        fixate = period < 4
        shown = jnp.concatenate([fixate[None], stimuli]).astype(jnp.float32)
        return shown, shows & jnp.asarray([False, True, True])

    def answer(self, trial: MatchTrial) -> Int32[Array, ""]:
        """1 for a match, 2 for none."""
        return jnp.where(trial.matches, jnp.int32(1), jnp.int32(2))
