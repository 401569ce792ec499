"""NeuroGym's timing tasks: discrimination of two intervals, and production of an interval."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Key
from numpy.polynomial import Polynomial

from hackmatrix_rl.env.memory_tasks._trial_task import (
    ChoiceTask,
    TrialTask,
    check_number,
    check_range,
    check_steps,
    steps_between,
)


@dataclass(frozen=True)
class IntervalDiscriminationConfig:
    """The periods of interval discrimination, in steps.

    The defaults are NeuroGym's at 80 ms per step.

    Raises:
        TypeError: a field is not an integer.
        ValueError: a field is out of range.
    """

    fixation: int = 3  #: Nothing is shown, 1 or more.
    shortest: int = 3  #: The least steps of each stimulus, 1 or more.
    longest: int = 7  #: The most steps of each stimulus.
    shortest_delay: int = 10  #: The least steps without a stimulus between the two, 0 or more.
    longest_delay: int = 18  #: The most steps between the two.
    delay: int = 6  #: Nothing is shown before the decision, 0 or more.
    decision: int = 3  #: The player chooses, 1 or more.

    def __post_init__(self) -> None:
        least = {"fixation": 1, "shortest": 1, "shortest_delay": 0, "delay": 0, "decision": 1}
        check_steps(self, least | {"longest": 1, "longest_delay": 0})
        check_range(self, "shortest", "longest")
        check_range(self, "shortest_delay", "longest_delay")


class IntervalTrial(eqx.Module):
    """The random variables of a trial."""

    first: Int32[Array, "*batch"]  #: Steps of the first stimulus.
    delay: Int32[Array, "*batch"]  #: Steps between the stimuli.
    second: Int32[Array, "*batch"]  #: Steps of the second stimulus.


@final
class IntervalDiscrimination(ChoiceTask):
    """Two stimuli: choice 1 if the first was longer, else 2.

    The observation is the fixation signal, the first stimulus and the second stimulus.

    Source: Genovesio, Tsujimoto and Wise 2009, "Feature- and order-based timing representations in
    the frontal cortex"; NeuroGym's `IntervalDiscrimination-v0`.

    Attributes:
        config: the periods.
    """

    config: IntervalDiscriminationConfig = eqx.field(
        static=True, default=IntervalDiscriminationConfig()
    )
    seen = 3  #: Fixation, and two stimuli.
    best_return = 1.0  #: Counting steps gives the answer.

    @property
    def periods(self) -> tuple[int, ...]:
        """The most steps of fixation, stimulus, delay, stimulus, delay and decision."""
        config = self.config
        between = (config.longest, config.longest_delay, config.longest)
        return (config.fixation, *between, config.delay, config.decision)

    @property
    def memoryless_return(self) -> float:
        """The probability of answer 2, which includes equal stimuli and so is the likelier one."""
        count = self.config.longest - self.config.shortest + 1
        return (count + 1) / (2 * count)

    def durations(self, trial: IntervalTrial) -> Int32[Array, " periods"]:
        """The stimuli and the delay between them have random lengths."""
        drawn = jnp.stack([trial.first, trial.delay, trial.second])
        return super().durations(trial).at[1:4].set(drawn)

    def draw_trial(self, *, key: Key[Array, ""]) -> IntervalTrial:
        """A trial with independent, uniform durations."""
        config = self.config
        first_key, delay_key, second_key = jax.random.split(key, 3)
        return IntervalTrial(
            steps_between(config.shortest, config.longest, key=first_key),
            steps_between(config.shortest_delay, config.longest_delay, key=delay_key),
            steps_between(config.shortest, config.longest, key=second_key),
        )

    def show(self, trial: IntervalTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """Each stimulus in its period."""
        return jnp.stack([period == 1, period == 3]).astype(jnp.float32)

    def answer(self, trial: IntervalTrial) -> Int32[Array, ""]:
        """1 if the first stimulus is longer, else 2."""
        return jnp.where(trial.first > trial.second, jnp.int32(1), jnp.int32(2))


TOLERANCE = 25 / 80
"""The error in steps that every interval allows besides its margin: NeuroGym's 25 ms."""


class ProductionTask(TrialTask):
    """A trial in which the player produces an interval: action 1 ends the interval and the trial.

    The reward is `max((1 - error / most) ** 1.5, 0.1)`, or 0 if the error exceeds `most`. Here
    `most = margin * interval + 0.3125` steps. The trial ends after twice the interval.
    """

    num_actions = 2  #: Wait, go.

    @property
    @abstractmethod
    def intervals(self) -> tuple[int, ...]:
        """The possible intervals, in steps."""

    @property
    @abstractmethod
    def begun(self) -> int:
        """Steps of the interval before the last period."""

    @abstractmethod
    def which(self, trial: Any) -> Int32[Array, ""]:
        """The index of a trial's interval in `intervals`."""

    @property
    def best_return(self) -> float:
        """The reward of going at the best step, averaged over the intervals."""
        return float(np.mean(np.max(self._payments(), axis=1)))

    @property
    def memoryless_return(self) -> float:
        """The best expected return with the same probability of going in each step.

        All steps of the last period look alike. The expected return is a polynomial in the
        probability of waiting.
        """
        payments = np.mean(self._payments(), axis=0)
        mean = Polynomial(np.array([1.0, -1.0])) * Polynomial(payments)
        stationary = np.clip(mean.deriv().roots().real, 0, 1)
        return float(max(mean(np.array([0.0, 1.0, *stationary]))))

    @final
    def pay(
        self, trial: Any, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """The reward of going at this step."""
        return jnp.asarray(self._payments(), jnp.float32)[self.which(trial), waited]

    def _payments(self) -> np.ndarray:
        """The reward of going, by interval and steps waited."""
        interval = np.array(self.intervals)[:, None]
        waited = np.arange(2 * max(self.intervals))
        most = self.config.margin * interval + TOLERANCE
        error = np.abs(waited + self.begun - interval)
        paid = np.maximum(np.maximum(1 - error / most, 0) ** 1.5, 0.1)
        return np.where((error <= most) & (waited < 2 * interval), paid, 0.0)


@dataclass(frozen=True)
class IntervalTimingConfig:
    """The periods of interval timing, in steps, and its two intervals.

    The defaults are NeuroGym's at 80 ms per step, except for the set signal, which has 50 ms.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 6  #: Nothing is shown, 1 or more.
    shortest_cue: int = 12  #: The least steps of the cue, 1 or more.
    longest_cue: int = 37  #: The most steps of the cue.
    set: int = 1  #: The set signal is shown; the interval starts after it. 0 or more.
    short: int = 10  #: The short interval, 1 or more.
    long: int = 19  #: The long interval.
    margin: float = 0.2  #: The allowed error as a fraction of the interval, 0 or more.

    def __post_init__(self) -> None:
        least = {"fixation": 1, "shortest_cue": 1, "longest_cue": 1, "set": 0, "short": 1}
        check_steps(self, least | {"long": 1})
        check_range(self, "shortest_cue", "longest_cue")
        check_range(self, "short", "long")
        object.__setattr__(self, "margin", check_number("margin", self.margin))


class IntervalTimingTrial(eqx.Module):
    """The random variables of a trial."""

    interval: Int32[Array, "*batch"]  #: 0 for the short interval, 1 for the long one.
    cue: Int32[Array, "*batch"]  #: Steps of the cue.


@final
class IntervalTiming(ProductionTask):
    """A cue names one of two intervals. The player produces it after the set signal.

    The observation is the fixation signal, which ends when the interval starts, the cue for the
    short interval, the cue for the long one, and the set signal.

    Source: Wang et al. 2018, "Flexible timing by temporal scaling of cortical responses";
    NeuroGym's `MotorTiming-v0`.

    Attributes:
        config: periods and intervals.
    """

    config: IntervalTimingConfig = eqx.field(static=True, default=IntervalTimingConfig())
    seen = 4  #: Fixation, two cues, and the set signal.
    begun = 0  #: The interval starts with the last period.

    @property
    def intervals(self) -> tuple[int, ...]:
        return self.config.short, self.config.long

    @property
    def periods(self) -> tuple[int, ...]:
        """The most steps of fixation, cue, set and production."""
        config = self.config
        return config.fixation, config.longest_cue, config.set, 2 * config.long

    def durations(self, trial: IntervalTimingTrial) -> Int32[Array, " periods"]:
        """The cue has a random length, and the last period is twice the interval."""
        last = 2 * jnp.asarray(self.intervals, jnp.int32)[trial.interval]
        return super().durations(trial).at[1].set(trial.cue).at[3].set(last)

    def draw_trial(self, *, key: Key[Array, ""]) -> IntervalTimingTrial:
        """A trial with a uniform interval and a uniform cue."""
        interval_key, cue_key = jax.random.split(key)
        return IntervalTimingTrial(
            jax.random.randint(interval_key, (), 0, 2),
            steps_between(self.config.shortest_cue, self.config.longest_cue, key=cue_key),
        )

    def show(
        self, trial: IntervalTimingTrial, period: Int32[Array, ""]
    ) -> Float32[Array, " stimuli"]:
        """The cue until the interval starts, and the set signal in its period."""
        cues = ((period == 1) | (period == 2)) & (jnp.arange(2) == trial.interval)
        return jnp.append(cues, period == 2).astype(jnp.float32)

    def which(self, trial: IntervalTimingTrial) -> Int32[Array, ""]:
        return trial.interval


@dataclass(frozen=True)
class ReadySetGoConfig:
    """The periods of ready-set-go, in steps, and the measured intervals.

    The defaults are NeuroGym's at 80 ms per step.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 1  #: Nothing is shown, 1 or more.
    ready: int = 1  #: The first signal is shown, 1 or more.
    shortest: int = 10  #: Least steps from the start of ready to the start of set; >= `ready`.
    longest: int = 18  #: Most steps from the start of ready to the start of set.
    set: int = 1  #: The second signal is shown, 1 or more.
    gain: int = 1  #: Ratio of the produced to the measured interval, 1 or more.
    margin: float = 0.2  #: The allowed error as a fraction of the interval, 0 or more.

    def __post_init__(self) -> None:
        least = {"fixation": 1, "ready": 1, "shortest": 1, "longest": 1, "set": 1, "gain": 1}
        check_steps(self, least)
        check_range(self, "ready", "shortest")
        check_range(self, "shortest", "longest")
        object.__setattr__(self, "margin", check_number("margin", self.margin))


class ReadySetGoTrial(eqx.Module):
    """The random variable of a trial."""

    measure: Int32[Array, "*batch"]  #: The measured interval: from the start of ready to set.


@final
class ReadySetGo(ProductionTask):
    """Two signals measure an interval. The player produces it from the second signal on.

    The observation is the fixation signal, which ends with the second signal, and both signals.
    Going during the second signal has no effect.

    Source: Remington et al. 2018, "Flexible sensorimotor computations through rapid
    reconfiguration of cortical dynamics"; NeuroGym's `ReadySetGo-v0`.

    Attributes:
        config: periods and intervals.
    """

    config: ReadySetGoConfig = eqx.field(static=True, default=ReadySetGoConfig())
    seen = 3  #: Fixation, and two signals.

    @property
    def intervals(self) -> tuple[int, ...]:
        config = self.config
        return tuple(config.gain * n for n in range(config.shortest, config.longest + 1))

    @property
    def begun(self) -> int:
        """The second signal, with which the interval starts."""
        return self.config.set

    @property
    def periods(self) -> tuple[int, ...]:
        """The most steps of fixation, ready, the rest of the measure, set and production."""
        config = self.config
        measured = (config.ready, config.longest - config.ready)
        return (config.fixation, *measured, config.set, 2 * max(self.intervals))

    def durations(self, trial: ReadySetGoTrial) -> Int32[Array, " periods"]:
        """The measure has a random length, and the last period is twice the interval."""
        rest, last = trial.measure - self.config.ready, 2 * self.config.gain * trial.measure
        return super().durations(trial).at[2].set(rest).at[4].set(last)

    def draw_trial(self, *, key: Key[Array, ""]) -> ReadySetGoTrial:
        """A trial with a uniform measure."""
        return ReadySetGoTrial(steps_between(self.config.shortest, self.config.longest, key=key))

    def show(self, trial: ReadySetGoTrial, period: Int32[Array, ""]) -> Float32[Array, " stimuli"]:
        """Each signal in its period."""
        return jnp.stack([period == 1, period == 3]).astype(jnp.float32)

    def which(self, trial: ReadySetGoTrial) -> Int32[Array, ""]:
        return trial.measure - self.config.shortest
