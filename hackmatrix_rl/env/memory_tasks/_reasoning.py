"""NeuroGym's probabilistic reasoning: the evidence of several shapes adds up."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.env.memory_tasks._trial_task import (
    ChoiceTask,
    check_range,
    check_steps,
    steps_between,
)
from hackmatrix_rl.system.errors import described, finite


def _check_weights(values: Any) -> tuple[float, ...]:
    """The weights as a tuple of floats. Raises unless they are finite numbers."""
    if not isinstance(values, tuple | list):
        raise TypeError(f"weights is {described(values)}; expected a tuple of numbers")
    if not values:
        raise ValueError("weights is empty; expected one number or more, such as (-1, 1)")
    return tuple(finite("weights", each) for each in values)


@dataclass(frozen=True)
class ProbabilisticReasoningConfig:
    """The periods of probabilistic reasoning, in steps, and the weights of its shapes.

    The defaults are NeuroGym's at 100 ms per step.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 5  #: Nothing is shown, 1 or more.
    stimulus: int = 5  #: Steps from one shape to the next, 1 or more.
    shortest_delay: int = 4  #: The least steps of the delay, in which nothing is shown; 0 or more.
    longest_delay: int = 5  #: The most steps of the delay.
    decision: int = 5  #: The player chooses, 1 or more.
    shapes: int = 4  #: Number of shapes in a trial, and of places for them, 1 or more.
    #: The log10 odds of choice 2 for each kind of shape.
    weights: tuple[float, ...] = (-10, -0.9, -0.7, -0.5, -0.3, 0.3, 0.5, 0.7, 0.9, 10)

    def __post_init__(self) -> None:
        least = {"fixation": 1, "stimulus": 1, "shortest_delay": 0, "decision": 1, "shapes": 1}
        check_steps(self, least | {"longest_delay": 0})
        check_range(self, "shortest_delay", "longest_delay")
        object.__setattr__(self, "weights", _check_weights(self.weights))


class ReasoningTrial(eqx.Module):
    """The random variables of a trial."""

    kinds: Int32[Array, "*batch shapes"]  #: The kind of each shape: an index into the weights.
    places: Int32[Array, "*batch shapes"]  #: The place of each shape; a permutation.
    second: Bool[Array, "*batch"]  #: Whether choice 2 is correct.
    delay: Int32[Array, "*batch"]  #: Steps of the delay.


@final
class ProbabilisticReasoning(ChoiceTask):
    """Shapes appear sequentially. The sum of their weights is the log10 odds of choice 2.

    A shape stays until the delay. A choice before the decision period costs 0.1. The correct choice
    is random: the sum gives only its probability.

    The observation is the fixation signal, and the kind of shape at each place, one-hot.

    Source: Yang and Shadlen 2007, "Probabilistic reasoning by neurons"; NeuroGym's
    `ProbabilisticReasoning-v0`.

    Attributes:
        config: periods and weights.
    """

    config: ProbabilisticReasoningConfig = eqx.field(
        static=True, default=ProbabilisticReasoningConfig()
    )

    @property
    def seen(self) -> int:
        """Fixation, and each kind of shape at each place."""
        return 1 + self.config.shapes * len(self.config.weights)

    @property
    def periods(self) -> tuple[int, ...]:
        """The most steps of fixation, each shape, delay and decision."""
        config = self.config
        shapes = (config.stimulus,) * config.shapes
        return (config.fixation, *shapes, config.longest_delay, config.decision)

    @property
    def best_return(self) -> float:
        """The expected probability of the likelier answer after all shapes."""
        return sum(share * max(p, 1 - p) for p, share in self._second().items())

    @property
    def memoryless_return(self) -> float:
        """The probability of the answer that is likelier a priori."""
        second = sum(share * p for p, share in self._second().items())
        return max(second, 1 - second)

    def durations(self, trial: ReasoningTrial) -> Int32[Array, " periods"]:
        """The delay has a random length."""
        return super().durations(trial).at[-2].set(trial.delay)

    def draw_trial(self, *, key: Key[Array, ""]) -> ReasoningTrial:
        """A trial with uniform shapes, places and delay, and an answer by their odds."""
        config = self.config
        kind_key, place_key, answer_key, delay_key = jax.random.split(key, 4)
        kinds = jax.random.randint(kind_key, (config.shapes,), 0, len(config.weights))
        evidence = jnp.sum(jnp.asarray(config.weights, jnp.float32)[kinds])
        return ReasoningTrial(
            kinds,
            jax.random.permutation(place_key, jnp.arange(config.shapes, dtype=jnp.int32)),
            jax.random.bernoulli(answer_key, jax.nn.sigmoid(evidence * math.log(10))),
            steps_between(config.shortest_delay, config.longest_delay, key=delay_key),
        )

    def show(self, trial: ReasoningTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The shapes so far, until the delay."""
        count, kinds = self.config.shapes, len(self.config.weights)
        there = (jnp.arange(count) < period) & (period <= count)
        shapes = jnp.where(
            there[:, None], jax.nn.one_hot(trial.kinds, kinds, dtype=jnp.float32), 0.0
        )
        return jnp.zeros_like(shapes).at[trial.places].set(shapes).ravel()

    def fixates(self, period: Int32[Array, ""]) -> Bool[Array, ""]:
        """In every period before the decision."""
        return period <= self.config.shapes + 1

    def answer(self, trial: ReasoningTrial) -> Int32[Array, ""]:
        """1 or 2, drawn with the trial."""
        return jnp.where(trial.second, jnp.int32(2), jnp.int32(1))

    def _second(self) -> dict[float, float]:
        """The distribution of the probability that choice 2 is correct, over trials."""
        weights = self.config.weights
        sums = {0.0: 1.0}
        for _ in range(self.config.shapes):
            more: defaultdict[float, float] = defaultdict(float)
            for total, share in sums.items():
                for weight in weights:
                    # Merge sums that differ only by rounding errors.
                    more[round(total + weight, 9)] += share / len(weights)
            sums = dict(more)
        found: defaultdict[float, float] = defaultdict(float)
        for total, share in sums.items():
            found[0.5 * (1 + math.tanh(total * math.log(10) / 2))] += share
        return dict(found)
