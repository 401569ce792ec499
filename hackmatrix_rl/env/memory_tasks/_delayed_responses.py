"""NeuroGym's tasks with a delay before the response: go/no-go, and a delayed comparison."""

import math
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.env.memory_tasks._trial_task import (
    ChoiceTask,
    TrialTask,
    check_number,
    check_steps,
)
from hackmatrix_rl.system.errors import described

RIGHT_GO, WRONG_GO, MISSED_GO = 1.0, -0.5, -0.5
"""The rewards of going in a go trial, of going in a no-go trial, and of not going in a go trial."""


@dataclass(frozen=True)
class GoNoGoConfig:
    """The periods of go/no-go, in steps.

    The defaults are NeuroGym's at 100 ms per step.

    Raises:
        TypeError: a field is not an integer.
        ValueError: a field is too small.
    """

    fixation: int = 0  #: Nothing is shown, 0 or more.
    stimulus: int = 5  #: The stimulus is shown, 1 or more.
    delay: int = 5  #: Nothing is shown, 0 or more.
    decision: int = 5  #: The player goes or not, 1 or more.

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 0, "stimulus": 1, "delay": 0, "decision": 1})


class GoNoGoTrial(eqx.Module):
    """The random variable of a trial."""

    go: Bool[Array, "*batch"]  #: Whether the player should go.


@final
class GoNoGo(TrialTask):
    """A stimulus, a delay and a decision: go (action 1) after one of two stimuli.

    In a go trial the reward is 1 for going, and -0.5 at the end for not going. In a no-go trial it
    is -0.5 for going, and 0 for not going.

    The observation is the fixation signal, the no-go stimulus and the go stimulus.

    Source: Zhang et al. 2019, "Active information maintenance in working memory by a sensory
    cortex"; NeuroGym's `GoNogo-v0`.

    Attributes:
        config: the periods.
    """

    config: GoNoGoConfig = eqx.field(static=True, default=GoNoGoConfig())
    seen = 3  #: Fixation, and two stimuli.
    num_actions = 2  #: Fixate, go.
    best_return = RIGHT_GO / 2  #: 1 in half of the trials, and 0 in the others.
    #: The expected return is linear in the probability of going, so never or always going is best.
    memoryless_return = max((RIGHT_GO + WRONG_GO) / 2, MISSED_GO / 2)

    def draw_trial(self, *, key: Key[Array, ""]) -> GoNoGoTrial:
        """A trial with a uniform stimulus."""
        return GoNoGoTrial(jax.random.bernoulli(key, 0.5))

    def show(self, trial: GoNoGoTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The stimulus in its period."""
        return ((period == 1) & jnp.stack([~trial.go, trial.go])).astype(jnp.float32)

    def pay(
        self, trial: GoNoGoTrial, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """The reward of going."""
        return jnp.where(trial.go, jnp.float32(RIGHT_GO), jnp.float32(WRONG_GO))

    def miss(self, trial: GoNoGoTrial) -> Float32[Array, ""]:
        """The reward of not going."""
        return jnp.where(trial.go, jnp.float32(MISSED_GO), jnp.float32(0))


def _check_pairs(values: Any) -> tuple[tuple[float, float], ...]:
    """The pairs as floats. Raises unless the first number of each is the larger one."""
    if not isinstance(values, tuple | list):
        raise TypeError(f"pairs is {described(values)}; expected a tuple of pairs of numbers")
    if not values:
        raise ValueError("pairs is empty; expected one pair or more, such as ((18, 10),)")
    found = []
    for pair in values:
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise TypeError(f"pairs has {described(pair)}; expected pairs of numbers")
        larger, smaller = (check_number("pairs", each) for each in pair)
        if larger <= smaller:
            raise ValueError(
                f"pairs has ({larger:g}, {smaller:g}); expected the larger number first"
            )
        found.append((larger, smaller))
    return tuple(found)


@dataclass(frozen=True)
class DelayedComparisonConfig:
    """The periods of a delayed comparison, in steps, and its difficulty.

    The defaults are NeuroGym's at 100 ms per step, without its noise of 0.1.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 5  #: Nothing is shown, 1 or more.
    first: int = 5  #: The first stimulus is shown, 1 or more.
    delay: int = 10  #: Nothing is shown, 0 or more.
    second: int = 5  #: The second stimulus is shown, 1 or more.
    decision: int = 1  #: The player chooses, 1 or more.
    #: The possible pairs of strengths, the larger one first.
    pairs: tuple[tuple[float, float], ...] = ((18, 10), (22, 14), (26, 18), (30, 22), (34, 26))
    noise: float = 0.0  #: Standard deviation of the noise on the stimulus per step; 0 or more.

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "first": 1, "delay": 0, "second": 1, "decision": 1})
        object.__setattr__(self, "pairs", _check_pairs(self.pairs))
        object.__setattr__(self, "noise", check_number("noise", self.noise))

    @property
    def shown(self) -> tuple[tuple[float, float], ...]:
        """The pairs as they are shown, scaled to [0.5, 1]."""
        strengths = [each for pair in self.pairs for each in pair]
        least, width = min(strengths), max(strengths) - min(strengths)
        scaled = iter([(1 + (each - least) / width) / 2 for each in strengths])
        return tuple(zip(scaled, scaled, strict=True))


class ComparisonTrial(eqx.Module):
    """The random variables of a trial."""

    pair: Int32[Array, "*batch"]  #: Index of the pair.
    first_larger: Bool[Array, "*batch"]  #: Whether the larger stimulus comes first.


@final
class DelayedComparison(ChoiceTask):
    """Two stimuli with a delay between them: choice 1 if the first is larger, 2 if the second is.

    The observation is the fixation signal and the stimulus. In NeuroGym the fixation signal is
    noisy, too.

    Source: Barak, Tsodyks and Romo 2010, "Neuronal population coding of parametric working
    memory"; NeuroGym's `DelayComparison-v0`.

    Attributes:
        config: periods, strengths and noise.
    """

    PERIODS = ("fixation", "first", "delay", "second", "decision")

    config: DelayedComparisonConfig = eqx.field(static=True, default=DelayedComparisonConfig())
    seen = 2  #: Fixation, and the stimulus.

    @property
    def best_return(self) -> float:
        """The probability that the likelier order is the correct one.

        It is 1 without noise. Otherwise the mean observation of each stimulus is a sufficient
        statistic, and the difference of the likelihoods of the two orders is integrated over both
        means. The error is below 1e-6.
        """
        if not self.noise:
            return 1.0
        larger, smaller = zip(*self.config.shown, strict=True)
        strengths, count = np.array([*larger, *smaller]), len(larger)
        # Rows are strengths, columns their mean observations.
        first = _likelihoods(strengths, self.noise / math.sqrt(self.config.first))
        second = _likelihoods(strengths, self.noise / math.sqrt(self.config.second))
        larger_first = first[:count].T @ second[count:]
        difference = larger_first - first[count:].T @ second[:count]
        return 0.5 + float(_absolute_sums(difference).sum()) / (4 * count)

    def draw_trial(self, *, key: Key[Array, ""]) -> ComparisonTrial:
        """A trial with a uniform pair in a uniform order."""
        pair_key, order_key = jax.random.split(key)
        return ComparisonTrial(
            jax.random.randint(pair_key, (), 0, len(self.config.pairs)),
            jax.random.bernoulli(order_key, 0.5),
        )

    def show(self, trial: ComparisonTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The stimuli in their periods."""
        larger, smaller = jnp.asarray(self.config.shown, jnp.float32)[trial.pair]
        shows_larger = (period == 1) == trial.first_larger
        stimulus = jnp.where(shows_larger, larger, smaller)
        return jnp.where(self.noisy(period), stimulus, 0.0)[None]

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """The stimulus in both of its periods."""
        return (period == 1) | (period == 3)

    def answer(self, trial: ComparisonTrial) -> Int32[Array, ""]:
        """1 if the larger stimulus came first, else 2."""
        return jnp.where(trial.first_larger, jnp.int32(1), jnp.int32(2))


def _likelihoods(means: np.ndarray, spread: float) -> np.ndarray:
    """A normal distribution for each mean (a row with sum 1), on a common lattice."""
    steps_per_spread = 10
    near = np.arange(-7 * steps_per_spread, 7 * steps_per_spread + 1)
    places = np.rint(means * (steps_per_spread / spread))[:, None] + near
    lattice = np.unique(places) / steps_per_spread
    density = np.exp(-((lattice - means[:, None] / spread) ** 2) / 2) / math.sqrt(2 * math.pi)
    return density / steps_per_spread


def _absolute_sums(rows: np.ndarray) -> np.ndarray:
    """The integral of the absolute values of each row, over a lattice with step 1.

    Where the sign changes, a sum has an error of second order in the step. There the function is
    interpolated linearly, and the next term of the Euler-Maclaurin formula is added.
    """
    changes = np.signbit(rows[:, :-1]) != np.signbit(rows[:, 1:])
    before, after = np.abs(rows[:, :-1]), np.abs(rows[:, 1:])
    total = before + after
    squares = np.divide(before**2 + after**2, total, out=np.zeros_like(total), where=changes)
    return np.where(changes, squares / 2 + total / 6, total / 2).sum(axis=1)
