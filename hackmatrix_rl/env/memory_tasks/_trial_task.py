"""The base classes of memory tasks, and of trials in periods with a response at the end."""

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
    """Converts fields to plain integers. Raises unless they are integers of at least `least`."""
    for name, minimum in least.items():
        object.__setattr__(config, name, whole(name, getattr(config, name), minimum))


def check_range(config: Any, shortest: str, longest: str) -> None:
    """Raises if a range of steps is empty."""
    least, most = getattr(config, shortest), getattr(config, longest)
    if most < least:
        raise ValueError(f"{longest} is {most}; expected {shortest}, which is {least}, or more")


def steps_between(shortest: int, longest: int, *, key: Key[Array, ""]) -> Int32[Array, ""]:
    """A uniform number of steps, both ends included."""
    return jax.random.randint(key, (), shortest, longest + 1)


def check_number(name: str, value: Any, *, most: float = math.inf) -> float:
    """The argument as a float. Raises unless it is a number, finite and in [0, `most`]."""
    found = number(name, value)
    if not (0 <= found <= most and math.isfinite(found)):
        bounds = "0 or more" if math.isinf(most) else f"a number from 0 to {most:g}"
        raise ValueError(f"{name} is {found:g}; expected {bounds}")
    return found


def check_coherences(values: Any) -> tuple[float, ...]:
    """The coherences as a tuple of floats. Raises unless they are numbers from 0 to 100."""
    if not isinstance(values, tuple | list):
        raise TypeError(f"coherences is {described(values)}; expected a tuple of numbers")
    if not values:
        raise ValueError("coherences is empty; expected one number or more, such as (51.2,)")
    return tuple(check_number("coherences", each, most=100) for each in values)


GameState = TypeVar("GameState")


class MemoryTask(SingleGame[GameState]):
    """A game that needs memory, with known returns. All returns are undiscounted."""

    def render(self, state: GameState) -> str:
        """The observation: a bar for each number."""
        seen = np.asarray(self.observe(state)).tolist()
        return "\n".join(f"{x:6.2f} {'#' * round(10 * max(0, x)):30.30}" for x in seen)

    @property
    @abstractmethod
    def best_return(self) -> float:
        """The exact optimal expected return."""

    @property
    @abstractmethod
    def memoryless_return(self) -> float:
        """The exact optimal expected return of a policy without memory."""


ABORTED = -0.1
"""Reward of a choice while the player should fixate."""


class TrialState(eqx.Module):
    """The state of a trial."""

    trial: PyTree[Array]  #: The random variables of the trial.
    step: Int32[Array, "*batch"]  #: Number of actions so far.
    noise: Float32[Array, "*batch seen"]  #: Standard normal noise for each observed number.


class TrialTask(MemoryTask[TrialState]):
    """A trial in periods, from a fixation period to a response period. An episode is one trial.

    Action 0 fixates; any other action responds. A response in the fixation period costs 0.1 and
    does not end the trial. Responses between the first and the last period have no effect. The
    first response in the last period ends the trial and is rewarded. Without one, the trial ends
    after this period.

    The observation is a fixation signal, which is 1 before the last period, and the stimuli.

    The trials reproduce NeuroGym's tasks of the same names with two choices: for the same trial
    without noise, observations and rewards are the same at every step. A step is 100 ms in
    NeuroGym, or 80 ms in tasks of intervals, and the noise of a step is NeuroGym's `sigma` divided
    by 10. There are two differences. NeuroGym's trials follow each other without an end of the
    episode, and its reset plays a random step. And a period of random length has a uniform
    number of steps.

    Source: Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing
    neuroscience tasks".

    Attributes:
        config: the steps of each period by its name, and optionally the noise.
    """

    PERIODS: ClassVar[tuple[str, ...]] = ("fixation", "stimulus", "delay", "decision")

    config: eqx.AbstractVar[Any]

    @property
    @abstractmethod
    def seen(self) -> int:
        """The length of the observation: the fixation signal and the stimuli."""

    @property
    def periods(self) -> tuple[int, ...]:
        """The most steps of each period, from fixation to response."""
        return tuple(getattr(self.config, name) for name in self.PERIODS)

    @final
    @property
    def noise(self) -> float:
        """Standard deviation of the noise of the noisy stimuli."""
        return float(getattr(self.config, "noise", 0.0))

    @abstractmethod
    def draw_trial(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        """The random variables of a trial."""

    @abstractmethod
    def show(self, trial: Any, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """The stimuli in a period, without noise.

        Periods count from 0. After the last one, `period` is the number of periods.
        """

    @abstractmethod
    def pay(
        self, trial: Any, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """The reward of a response in the last period.

        Args:
            trial: the random variables of the trial.
            response: the action, 1 or more.
            waited: steps of the last period before the response.
        """

    def miss(self, trial: Any) -> Float32[Array, ""]:
        """The reward of a trial without a response; by default 0."""
        return jnp.float32(0)

    def noisy(self, period: Int32[Array, ""]) -> Bool[Array, "*stimuli"]:
        """Which stimuli are noisy (or a single flag for all); by default none."""
        return jnp.bool_(False)

    def fixates(self, period: Int32[Array, ""]) -> Bool[Array, ""]:
        """Whether a response in a period costs 0.1; by default in the first."""
        return period == 0

    def durations(self, trial: Any) -> Int32[Array, " periods"]:
        """Steps of each period of a trial; by default `periods`."""
        return jnp.asarray(self.periods, jnp.int32)

    @final
    @property
    def length(self) -> int:
        """The most steps of a trial."""
        return sum(self.periods)

    @final
    @property
    def longest_dependence(self) -> int:
        """A full trial."""
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
        """The current period, and the step at which each period ends."""
        ends = jnp.cumsum(self.durations(state.trial), dtype=jnp.int32)
        return jnp.sum(state.step >= ends, dtype=jnp.int32), ends

    def _noise(self, key: Key[Array, ""]) -> Float32[Array, " seen"]:
        if not self.noise:
            return jnp.zeros((self.seen,), jnp.float32)
        return jax.random.normal(key, (self.seen,), jnp.float32)


class ChoiceTask(TrialTask):
    """A trial that ends with a decision between two choices, 1 and 2.

    The reward is 1 for the correct choice, and 0 for the other choice and without one.
    """

    num_actions = 3  #: Fixate, and two choices.

    @property
    def memoryless_return(self) -> float:
        """1/2: no stimulus is shown in the decision period, so the choice is a guess."""
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
    """The probability of identifying the larger of two numbers from noisy observations.

    The optimal choice sums the observed differences. The variance of a difference is the sum of
    both variances.
    """
    if difference == 0:
        return 0.5
    if noise == 0:
        return 1.0
    return 0.5 * (1 + math.erf(difference * math.sqrt(steps) / (2 * noise)))
