"""What memory tasks have in common, and trials in periods with a response at the end."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env import Played, SingleGame
from hackmatrix_rl.system.errors import described, number, whole


def check_steps(config: Any, least: Mapping[str, int]) -> None:
    """Sets fields to plain integers; raises unless they are whole numbers of at least so much."""
    for name, minimum in least.items():
        object.__setattr__(config, name, whole(name, getattr(config, name), minimum))


def check_range(config: Any, shortest: str, longest: str) -> None:
    """Raises if a range of steps ends before it begins."""
    least, most = getattr(config, shortest), getattr(config, longest)
    if most < least:
        raise ValueError(f"{longest} is {most}; expected {shortest}, which is {least}, or more")


def steps_between(shortest: int, longest: int, *, key: Key[Array, ""]) -> Int32[Array, ""]:
    """A uniform whole number of steps, both ends included."""
    return jax.random.randint(key, (), shortest, longest + 1)


def check_number(name: str, value: Any, *, most: float = math.inf) -> float:
    """The argument as a float; raises if it is no number, negative, too large or not finite."""
    found = number(name, value)
    if not (0 <= found <= most and math.isfinite(found)):
        bounds = "0 or more" if math.isinf(most) else f"a number from 0 to {most:g}"
        raise ValueError(f"{name} is {found:g}; expected {bounds}")
    return found


def check_coherences(values: Any) -> tuple[float, ...]:
    """The coherences as a tuple of floats; raises unless they are numbers from 0 to 100."""
    if not isinstance(values, tuple | list):
        raise TypeError(f"coherences is {described(values)}; expected a tuple of numbers")
    if not values:
        raise ValueError("coherences is empty; expected one number or more, such as (51.2,)")
    return tuple(check_number("coherences", each, most=100) for each in values)


GameState = TypeVar("GameState")


class MemoryTask(SingleGame[GameState]):
    """A game of one trial that needs memory, with known returns.

    An episode is one trial. All returns are undiscounted.
    """

    def render(self, state: GameState) -> str:
        """What the player sees now: a bar for each number."""
        seen = np.asarray(self.observe(state)).tolist()
        return "\n".join(f"{x:6.2f} {'#' * round(10 * max(0, x)):30.30}" for x in seen)

    @property
    @abstractmethod
    def best_return(self) -> float:
        """The best mean return of any policy; exact."""

    @property
    @abstractmethod
    def memoryless_return(self) -> float:
        """The best mean return of a memoryless policy; exact."""


ABORTED = -0.1
"""Reward of a choice while the player should fixate."""


class TrialState(eqx.Module):
    """A trial between two actions."""

    trial: PyTree[Array]  #: What was drawn for it.
    step: Int32[Array, "*batch"]  #: Number of actions since it began.
    #: Standard normal numbers, one for each number that is seen.
    noise: Float32[Array, "*batch seen"]


class TrialTask(MemoryTask[TrialState]):
    """A trial in periods: first fixation, last a response.

    Action 0 fixates, any other responds. A response during fixation costs 0.1, and the trial goes
    on. In between, actions do nothing. The first response of the last period ends the trial and is
    paid. Without one, the trial ends with the period.

    Seen are whether to fixate, which ends with the last period, and the stimuli.

    The trials reproduce NeuroGym's tasks of the same names with two choices: with given trials
    and no noise, each step shows the same and pays the same for the same action. There a step is
    100 ms, or 80 ms where intervals are measured, and the noise of a step is NeuroGym's `sigma`
    divided by 10. Two things differ: an episode is one trial, while NeuroGym's follow one another
    without end, and its reset plays a step at random; and a period whose length is drawn has a
    uniform whole number of steps.

    Source: Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing
    neuroscience tasks".

    Attributes:
        config: has the steps of each period by its name, and perhaps the noise.
    """

    PERIODS: ClassVar[tuple[str, ...]] = ("fixation", "stimulus", "delay", "decision")

    config: eqx.AbstractVar[Any]

    @property
    @abstractmethod
    def seen(self) -> int:
        """The length of the observation: 1 more than the stimuli."""

    @property
    def periods(self) -> tuple[int, ...]:
        """Most steps of each period; the first is the fixation, the last the response."""
        return tuple(getattr(self.config, name) for name in self.PERIODS)

    @final
    @property
    def noise(self) -> float:
        """Standard deviation of the noise on each stimulus that has noise."""
        return float(getattr(self.config, "noise", 0.0))

    @abstractmethod
    def draw_trial(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        """The random variables of a trial."""

    @abstractmethod
    def show(self, trial: Any, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The stimuli in a period, without noise.

        Periods count from 0; after the last one, it is the number of periods.
        """

    @abstractmethod
    def pay(
        self, trial: Any, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """The reward of a response in the last period.

        Args:
            trial: what was drawn.
            response: the action, 1 or more.
            waited: steps of the last period before it.
        """

    def miss(self, trial: Any) -> Float32[Array, ""]:
        """The reward of a trial without a response; by default 0."""
        return jnp.float32(0)

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """Which stimuli have noise, or whether all have; by default none."""
        return jnp.bool_(False)

    def fixates(self, period: Int32[Array, ""]) -> Bool[Array, ""]:
        """Whether a response costs 0.1 in a period; by default in the first."""
        return period == 0

    def durations(self, trial: Any) -> Int32[Array, " periods"]:
        """Steps of each period of a trial; by default always the same."""
        return jnp.asarray(self.periods, jnp.int32)

    @final
    @property
    def length(self) -> int:
        """Most steps of a trial."""
        return sum(self.periods)

    @final
    @property
    def longest_dependence(self) -> int:
        """A whole trial."""
        return self.length

    @final
    def start(self, *, key: Key[Array, ""]) -> TrialState:
        trial_key, noise_key = jax.random.split(key)
        return TrialState(self.draw_trial(key=trial_key), jnp.int32(0), self._noise(noise_key))

    @final
    def observe(self, state: TrialState) -> Float32[Array, " seen"]:
        period, ends = self._now(state)
        stimuli = self.show(state.trial, period)
        stimuli += jnp.where(self.noisy(period), self.noise * state.noise[1:], 0.0)
        fixate = period < ends.size - 1
        return jnp.concatenate([fixate.astype(jnp.float32)[None], stimuli])

    @final
    def play(self, state: TrialState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Fixates or responds."""
        period, ends = self._now(state)
        response, last = action != 0, ends[-2]
        responds = response & (state.step >= last)
        after = TrialState(state.trial, state.step + 1, self._noise(key))
        over = after.step >= ends[-1]
        aborts = response & self.fixates(period)
        unanswered = jnp.where(over, self.miss(state.trial), jnp.where(aborts, ABORTED, 0.0))
        paid = self.pay(state.trial, action, state.step - last)
        return Played(
            after, reward=jnp.where(responds, paid, unanswered), terminated=responds | over
        )

    def _now(self, state: TrialState) -> tuple[Int32[Array, ""], Int32[Array, " periods"]]:
        """The number of the present period, and the step at which each period ends."""
        ends = jnp.cumsum(self.durations(state.trial), dtype=jnp.int32)
        return jnp.sum(state.step >= ends, dtype=jnp.int32), ends

    def _noise(self, key: Key[Array, ""]) -> Float32[Array, " seen"]:
        if not self.noise:
            return jnp.zeros((self.seen,), jnp.float32)
        return jax.random.normal(key, (self.seen,), jnp.float32)


class ChoiceTask(TrialTask):
    """A trial that ends with a decision between two choices, 1 and 2.

    The right choice gives 1, the wrong one and none give 0.
    """

    num_actions = 3  #: Fixate, and two choices.

    @property
    def memoryless_return(self) -> float:
        """1/2: no stimulus is visible at the decision, so the choice is a guess."""
        return 0.5

    @abstractmethod
    def answer(self, trial: Any) -> Int32[Array, ""]:
        """The correct choice: 1 or 2."""

    @final
    def pay(
        self, trial: Any, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """1 for the correct choice."""
        return (response == self.answer(trial)).astype(jnp.float32)


def chance_to_see(difference: float, steps: int, noise: float) -> float:
    """The probability of recognising which of two numbers is the larger one.

    The best guess adds up what is seen. Both numbers have noise, so a step's difference has the
    variance of both.
    """
    if difference == 0:
        return 0.5
    if noise == 0:
        return 1.0
    return 0.5 * (1 + math.erf(difference * math.sqrt(steps) / (2 * noise)))
