"""Context-dependent decision making: the cue says which of two pairs of stimuli counts."""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.memory_tasks._checks import check_coherences, check_number, check_steps
from hackmatrix_rl.memory_tasks._choice_task import ChoiceTask
from hackmatrix_rl.memory_tasks._perceptual_decision import mean_chance_to_see, two_stimuli


@dataclass(frozen=True)
class ContextConfig:
    """The periods of context-dependent decision making, in steps, and how hard it is.

    The defaults are NeuroGym's at 100 ms a step, without its noise of 0.1. Its delay is
    random: 600 ms are the mean before bounds.

    Attributes:
        fixation: only the cue is shown, 1 or more.
        stimulus: the stimuli are shown, 1 or more.
        delay: only the cue is shown, 0 or more.
        decision: the player chooses, 1 or more.
        coherences: how far the stimuli of a pair are apart, in percent; each pair of a trial draws
            one of them.
        noise: standard deviation on each stimulus, in each step; 0 or more.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 3
    stimulus: int = 7
    delay: int = 6
    decision: int = 1
    coherences: tuple[float, ...] = (5.0, 15.0, 50.0)
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "stimulus": 1, "delay": 0, "decision": 1})
        object.__setattr__(self, "coherences", check_coherences(self.coherences))
        object.__setattr__(self, "noise", check_number("noise", self.noise))


class ContextTrial(eqx.Module):
    """The random variables of a trial.

    Attributes:
        context: number of the pair that counts, 0 or 1.
        stronger: number of the stronger stimulus of each pair, 0 or 1.
        coherence: how far the stimuli of each pair are apart, in percent.
    """

    context: Int32[Array, "*batch"]
    stronger: Int32[Array, "*batch two"]
    coherence: Float32[Array, "*batch two"]


@final
class ContextDecision(ChoiceTask):
    """Two pairs of stimuli, and a cue: which stimulus of the pair that counts is stronger?

    Choice 1 says the first of them, 2 the second.

    Seen are whether to fixate, which ends with the decision, the first pair, the second pair, and
    the cue: two numbers, one of which is 1 during the whole trial. Only the pairs have noise.

    Source: Mante et al. 2013, "Context-dependent computation by recurrent dynamics in prefrontal
    cortex"; NeuroGym's `ContextDecisionMaking-v0`.

    Attributes:
        config: periods, coherences and noise.
    """

    config: ContextConfig = eqx.field(static=True, default=ContextConfig())

    @property
    def seen(self) -> int:
        """The length of the observation: fixation, two pairs, and the cue."""
        return 7

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

    def draw(self, *, key: Key[Array, ""]) -> ContextTrial:
        """A trial with independent, uniform variables."""
        context_key, stronger_key, coherence_key = jax.random.split(key, 3)
        choices = jnp.asarray(self.config.coherences, jnp.float32)
        return ContextTrial(
            jax.random.randint(context_key, (), 0, 2),
            jax.random.randint(stronger_key, (2,), 0, 2),
            jax.random.choice(coherence_key, choices, (2,)),
        )

    def show(
        self, trial: ContextTrial, period: Int32[Array, ""]
    ) -> tuple[Float32[Array, " seen"], Bool[Array, " seen"]]:
        """The cue always, the stimuli in their period, with noise on them."""
        shows = period == 1
        pairs = jax.vmap(two_stimuli)(trial.stronger, trial.coherence).ravel()
        shown = jnp.concatenate(
            [
                (period < 3).astype(jnp.float32)[None],
                jnp.where(shows, pairs, 0.0),
                (jnp.arange(2) == trial.context).astype(jnp.float32),
            ]
        )
        return shown, shows & (jnp.arange(7) > 0) & (jnp.arange(7) < 5)

    def answer(self, trial: ContextTrial) -> Int32[Array, ""]:
        """The number of the stronger stimulus of the pair that counts, from 1."""
        return trial.stronger[trial.context] + 1
