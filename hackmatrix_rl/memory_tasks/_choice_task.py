"""What memory tasks have in common, and trials in periods with one choice of two at the end."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env import Played, SingleGame
from hackmatrix_rl.errors import described, number, whole


def check_steps(config: Any, least: Mapping[str, int]) -> None:
    """Sets fields to plain integers; raises unless they are whole numbers of at least so much."""
    for name, minimum in least.items():
        object.__setattr__(config, name, whole(name, getattr(config, name), minimum))


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


class ChoiceTask(MemoryTask[TrialState]):
    """A trial in periods: first fixation, last a decision between two choices.

    Action 0 fixates, 1 and 2 are the choices. A choice during fixation costs 0.1, and the trial
    goes on. In between, actions do nothing. The first choice of the decision ends the trial: the
    right one gives 1, the wrong one 0. Without a choice, the trial ends with the period, for 0.

    The trials are those of NeuroGym's tasks of the same names with two stimuli: with given trials
    and no noise, each step shows the same and pays the same for the same action. There a step is
    100 ms, and the noise of a step is NeuroGym's `sigma` divided by 10. One thing differs: an
    episode is one trial. NeuroGym's follow one another without end, and its reset plays a step at
    random.

    Source: Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing
    neuroscience tasks".
    """

    memoryless_return = 0.5  #: No stimulus is visible at the decision, so the choice is a guess.
    num_actions = 3  #: Fixate, and two choices.

    @property
    @abstractmethod
    def seen(self) -> int:
        """The length of the observation."""

    @property
    @abstractmethod
    def periods(self) -> tuple[int, ...]:
        """Steps of each period; the first is the fixation, the last the decision."""

    @property
    @abstractmethod
    def noise(self) -> float:
        """Standard deviation of the noise on each number that has noise."""

    @abstractmethod
    def draw(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        """The random variables of a trial."""

    @abstractmethod
    def show(
        self, trial: Any, period: Int32[Array, ""]
    ) -> tuple[Float32[Array, " seen"], Bool[Array, " seen"]]:
        """The observation in a period without noise, and which of its numbers have noise.

        Periods count from 0; after the last one, it is the number of periods.
        """

    @abstractmethod
    def answer(self, trial: Any) -> Int32[Array, ""]:
        """The correct choice: 1 or 2."""

    @final
    @property
    def length(self) -> int:
        """Most steps of a trial."""
        return sum(self.periods)

    @final
    def start(self, *, key: Key[Array, ""]) -> TrialState:
        trial_key, noise_key = jax.random.split(key)
        return TrialState(self.draw(key=trial_key), jnp.int32(0), self._noise(noise_key))

    @final
    def observe(self, state: TrialState) -> Float32[Array, " seen"]:
        ends = jnp.asarray([sum(self.periods[: n + 1]) for n in range(len(self.periods))])
        period = jnp.sum(state.step >= ends, dtype=jnp.int32)
        shown, noisy = self.show(state.trial, period)
        return shown + jnp.where(noisy, self.noise * state.noise, 0.0)

    @final
    def play(self, state: TrialState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Fixates or chooses."""
        fixation, decision = self.periods[0], self.length - self.periods[-1]
        chose = action != 0
        decides = state.step >= decision
        right = decides & (action == self.answer(state.trial))
        aborts = chose & (state.step < fixation)
        after = TrialState(state.trial, state.step + 1, self._noise(key))
        return Played(
            after,
            reward=jnp.where(right, 1.0, jnp.where(aborts, ABORTED, 0.0)),
            terminated=(decides & chose) | (after.step >= self.length),
        )

    def _noise(self, key: Key[Array, ""]) -> Float32[Array, " seen"]:
        if not self.noise:
            return jnp.zeros((self.seen,), jnp.float32)
        return jax.random.normal(key, (self.seen,), jnp.float32)


def chance_to_see(difference: float, steps: int, noise: float) -> float:
    """The probability of telling which of two numbers is the larger one.

    The best guess adds up what is seen. Both numbers have noise, so a step's difference has the
    variance of both.
    """
    if difference == 0:
        return 0.5
    if noise == 0:
        return 1.0
    return 0.5 * (1 + math.erf(difference * math.sqrt(steps) / (2 * noise)))
