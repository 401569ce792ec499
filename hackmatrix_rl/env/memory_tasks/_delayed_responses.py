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
"""Rewards of going when one should, of going when one should not, and of not going."""


@dataclass(frozen=True)
class GoNoGoConfig:
    """The periods of go/no-go, in steps.

    The defaults are NeuroGym's at 100 ms a step.

    Raises:
        TypeError: a field is no whole number.
        ValueError: a field is too small.
    """

    fixation: int = 0  #: Nothing is shown, 0 or more.
    stimulus: int = 5  #: The sign is shown, 1 or more.
    delay: int = 5  #: Nothing is shown, 0 or more.
    decision: int = 5  #: The player goes or not, 1 or more.

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 0, "stimulus": 1, "delay": 0, "decision": 1})


class GoNoGoTrial(eqx.Module):
    """The random variable of a trial."""

    go: Bool[Array, "*batch"]  #: Whether the player should go.


@final
class GoNoGo(TrialTask):
    """A sign, a delay, a decision: action 1 goes, which is right after one sign alone.

    Going when one should gives 1 and when one should not -0.5; not going when one should gives
    -0.5 at the end, and when one should not 0.

    Seen are whether to fixate, which ends with the decision, the sign not to go, and the sign to
    go.

    Source: Zhang et al. 2019, "Active information maintenance in working memory by a sensory
    cortex"; NeuroGym's `GoNogo-v0`.

    Attributes:
        config: the periods.
    """

    config: GoNoGoConfig = eqx.field(static=True, default=GoNoGoConfig())
    seen = 3  #: Fixation, and two signs.
    num_actions = 2  #: Fixate, go.
    best_return = RIGHT_GO / 2  #: 1 in half of the trials, and 0 in the others.
    #: Who goes with probability p gets a mean that is linear in p; going always is best.
    memoryless_return = max((RIGHT_GO + WRONG_GO) / 2, MISSED_GO / 2)

    def draw_trial(self, *, key: Key[Array, ""]) -> GoNoGoTrial:
        """A trial with either sign with equal probability."""
        return GoNoGoTrial(jax.random.bernoulli(key, 0.5))

    def show(self, trial: GoNoGoTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The sign in its period."""
        return ((period == 1) & jnp.stack([~trial.go, trial.go])).astype(jnp.float32)

    def pay(
        self, trial: GoNoGoTrial, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """What going gives."""
        return jnp.where(trial.go, jnp.float32(RIGHT_GO), jnp.float32(WRONG_GO))

    def miss(self, trial: GoNoGoTrial) -> Float32[Array, ""]:
        """What not going gives."""
        return jnp.where(trial.go, jnp.float32(MISSED_GO), jnp.float32(0))


def _check_pairs(values: Any) -> tuple[tuple[float, float], ...]:
    """The pairs as floats; raises unless the first number of each is the larger one."""
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
    """The periods of a delayed comparison, in steps, and how hard it is.

    The defaults are NeuroGym's at 100 ms a step, without its noise of 0.1.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 5  #: Nothing is shown, 1 or more.
    first: int = 5  #: The first stimulus is shown, 1 or more.
    delay: int = 10  #: Nothing is shown, 0 or more.
    second: int = 5  #: The second stimulus is shown, 1 or more.
    decision: int = 1  #: The player chooses, 1 or more.
    #: The strengths that are compared, the larger one first; each trial draws a pair.
    pairs: tuple[tuple[float, float], ...] = ((18, 10), (22, 14), (26, 18), (30, 22), (34, 26))
    noise: float = 0.0  #: Standard deviation on the stimulus, in each step; 0 or more.

    def __post_init__(self) -> None:
        check_steps(self, {"fixation": 1, "first": 1, "delay": 0, "second": 1, "decision": 1})
        object.__setattr__(self, "pairs", _check_pairs(self.pairs))
        object.__setattr__(self, "noise", check_number("noise", self.noise))

    @property
    def shown(self) -> tuple[tuple[float, float], ...]:
        """The pairs as they are shown: scaled to the range from 0.5 to 1."""
        strengths = [each for pair in self.pairs for each in pair]
        least, width = min(strengths), max(strengths) - min(strengths)
        scaled = iter([(1 + (each - least) / width) / 2 for each in strengths])
        return tuple(zip(scaled, scaled, strict=True))


class ComparisonTrial(eqx.Module):
    """The random variables of a trial."""

    pair: Int32[Array, "*batch"]  #: Number of the pair, from 0.
    first_larger: Bool[Array, "*batch"]  #: Whether the larger stimulus comes first.


@final
class DelayedComparison(ChoiceTask):
    """Two stimuli with a delay between: choice 1 says that the first is larger, 2 the second.

    Seen are whether to fixate, which ends with the decision, and the stimulus. NeuroGym's noise
    also lies on whether to fixate.

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
        """The probability that the likelier order is the right one.

        Without noise 1. Otherwise the mean of what was seen of each stimulus is all that counts,
        and the difference of the two orders' likelihoods is integrated over both means. The error
        is below 1e-6.
        """
        if not self.noise:
            return 1.0
        larger, smaller = zip(*self.config.shown, strict=True)
        strengths, count = np.array([*larger, *smaller]), len(larger)
        # Rows are strengths, columns what may be seen of them.
        first = _likelihoods(strengths, self.noise / math.sqrt(self.config.first))
        second = _likelihoods(strengths, self.noise / math.sqrt(self.config.second))
        larger_first = first[:count].T @ second[count:]
        difference = larger_first - first[count:].T @ second[:count]
        return 0.5 + float(_absolute_sums(difference).sum()) / (4 * count)

    def draw_trial(self, *, key: Key[Array, ""]) -> ComparisonTrial:
        """A trial with a uniform pair, in either order with equal probability."""
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
        """The stimulus in the periods of both."""
        return (period == 1) | (period == 3)

    def answer(self, trial: ComparisonTrial) -> Int32[Array, ""]:
        """1 if the larger stimulus came first, else 2."""
        return jnp.where(trial.first_larger, jnp.int32(1), jnp.int32(2))


def _likelihoods(means: np.ndarray, spread: float) -> np.ndarray:
    """Normal distributions on a lattice near all means; a row for each, with a sum of 1."""
    steps_per_spread = 10
    near = np.arange(-7 * steps_per_spread, 7 * steps_per_spread + 1)
    places = np.rint(means * (steps_per_spread / spread))[:, None] + near
    lattice = np.unique(places) / steps_per_spread
    density = np.exp(-((lattice - means[:, None] / spread) ** 2) / 2) / math.sqrt(2 * math.pi)
    return density / steps_per_spread


def _absolute_sums(rows: np.ndarray) -> np.ndarray:
    """The integral of each row's absolute values over a lattice with steps of 1.

    The sum alone is wrong by the square of the step where the sign changes. There the value is
    drawn as a line, and the next term of the Euler-Maclaurin formula is added.
    """
    changes = np.signbit(rows[:, :-1]) != np.signbit(rows[:, 1:])
    before, after = np.abs(rows[:, :-1]), np.abs(rows[:, 1:])
    total = before + after
    squares = np.divide(before**2 + after**2, total, out=np.zeros_like(total), where=changes)
    return np.where(changes, squares / 2 + total / 6, total / 2).sum(axis=1)
