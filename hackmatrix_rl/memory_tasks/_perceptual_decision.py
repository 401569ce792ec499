"""Perceptual decision making: which of two noisy stimuli is the stronger one?"""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.memory_tasks._checks import check_coherences, check_number, check_steps
from hackmatrix_rl.memory_tasks._choice_task import ChoiceTask, chance_to_see


@dataclass(frozen=True)
class PerceptualConfig:
    """The periods of perceptual decision making, in steps, and how hard it is.

    The defaults are NeuroGym's at 100 ms a step, without its noise of 0.1.

    Attributes:
        fixation: nothing is shown, 1 or more.
        stimulus: the stimuli are shown, 1 or more.
        delay: nothing is shown, 0 or more.
        decision: the player chooses, 1 or more.
        coherences: how far the stimuli are apart, in percent; each trial draws one of them.
        noise: standard deviation on each stimulus, in each step; 0 or more.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 1
    stimulus: int = 20
    delay: int = 0
    decision: int = 1
    coherences: tuple[float, ...] = (0.0, 6.4, 12.8, 25.6, 51.2)
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "stimulus": 1, "delay": 0, "decision": 1})
        object.__setattr__(self, "coherences", check_coherences(self.coherences))
        object.__setattr__(self, "noise", check_number("noise", self.noise))


class PerceptualTrial(eqx.Module):
    """The random variables of a trial.

    Attributes:
        stronger: number of the stronger stimulus, 0 or 1.
        coherence: how far the stimuli are apart, in percent.
    """

    stronger: Int32[Array, "*batch"]
    coherence: Float32[Array, "*batch"]


@final
class PerceptualDecision(ChoiceTask):
    """Two stimuli with noise: choice 1 says that the first is stronger, 2 the second.

    Seen are whether to fixate, which ends with the decision, and the stimuli, which are 0.5 plus
    and minus half the coherence.

    Source: Britten et al. 1992, "The analysis of visual motion: a comparison of neuronal and
    psychophysical performance"; NeuroGym's `PerceptualDecisionMaking-v0`.

    Attributes:
        config: periods, coherences and noise.
    """

    config: PerceptualConfig = eqx.field(static=True, default=PerceptualConfig())

    @property
    def seen(self) -> int:
        """The length of the observation: fixation, and two stimuli."""
        return 3

    @property
    def periods(self) -> tuple[int, ...]:
        """The steps of fixation, stimulus, delay, decision."""
        periods = self.config
        return periods.fixation, periods.stimulus, periods.delay, periods.decision

    @property
    def noise(self) -> float:
        """The noise of the config."""
        return self.config.noise

    @property
    def best_return(self) -> float:
        """The probability of seeing the stronger stimulus, a mean over the coherences."""
        return mean_chance_to_see(self.config.coherences, self.config.stimulus, self.noise)

    def draw(self, *, key: Key[Array, ""]) -> PerceptualTrial:
        """A trial with a uniform stronger stimulus and a uniform coherence."""
        stronger_key, coherence_key = jax.random.split(key)
        return PerceptualTrial(
            jax.random.randint(stronger_key, (), 0, 2),
            jax.random.choice(coherence_key, jnp.asarray(self.config.coherences, jnp.float32)),
        )

    def show(
        self, trial: PerceptualTrial, period: Int32[Array, ""]
    ) -> tuple[Float32[Array, " seen"], Bool[Array, " seen"]]:
        """The stimuli in their period, with noise on them."""
        shows = period == 1
        stimuli = jnp.where(shows, two_stimuli(trial.stronger, trial.coherence), 0.0)
        fixate = (period < 3).astype(jnp.float32)
        return jnp.concatenate([fixate[None], stimuli]), shows & jnp.asarray([False, True, True])

    def answer(self, trial: PerceptualTrial) -> Int32[Array, ""]:
        """The number of the stronger stimulus, from 1."""
        return trial.stronger + 1


def two_stimuli(
    stronger: Int32[Array, ""], coherence: Float32[Array, ""]
) -> Float32[Array, " two"]:
    """Two stimuli without noise.

    Args:
        stronger: number of the stronger one, 0 or 1.
        coherence: how far they are apart, in percent.
    """
    return 0.5 + jnp.where(jnp.arange(2) == stronger, coherence, -coherence) / 200.0


def mean_chance_to_see(coherences: tuple[float, ...], steps: int, noise: float) -> float:
    """The probability of seeing which of two stimuli is stronger, a mean over coherences.

    Args:
        coherences: in percent.
        steps: how often the stimuli are seen.
        noise: standard deviation on each.
    """
    chances = [chance_to_see(each / 100, steps, noise) for each in coherences]
    return sum(chances) / len(chances)
