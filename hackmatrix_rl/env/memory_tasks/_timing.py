"""NeuroGym's tasks of time: which of two intervals is longer, and producing an interval."""

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

    The defaults are NeuroGym's at 80 ms a step.

    Raises:
        TypeError: a field is no whole number.
        ValueError: a field is out of range.
    """

    fixation: int = 3  #: Nothing is shown, 1 or more.
    shortest: int = 3  #: Steps of a stimulus, 1 or more; both are drawn.
    longest: int = 7  #: A stimulus is drawn up to this.
    shortest_delay: int = 10  #: Between the stimuli nothing is shown, 0 or more.
    longest_delay: int = 18  #: The delay between the stimuli is drawn up to this.
    delay: int = 6  #: Before the decision nothing is shown, 0 or more.
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
    """Two stimuli: choice 1 says that the first lasted longer, 2 that it did not.

    Seen are whether to fixate, which ends with the decision, the first stimulus, and the second.

    Source: Genovesio, Tsujimoto and Wise 2009, "Feature- and order-based timing representations in
    the frontal cortex"; NeuroGym's `IntervalDiscrimination-v0`.

    Attributes:
        config: the periods.
    """

    config: IntervalDiscriminationConfig = eqx.field(
        static=True, default=IntervalDiscriminationConfig()
    )
    seen = 3  #: Fixation, and two stimuli.
    best_return = 1.0  #: Whoever counts knows the answer.

    @property
    def periods(self) -> tuple[int, ...]:
        """Most steps of fixation, stimulus, delay, stimulus, delay and decision."""
        config = self.config
        between = (config.longest, config.longest_delay, config.longest)
        return (config.fixation, *between, config.delay, config.decision)

    @property
    def memoryless_return(self) -> float:
        """The probability of the likelier answer, which is 2: it also holds for equal stimuli."""
        count = self.config.longest - self.config.shortest + 1
        return (count + 1) / (2 * count)

    def durations(self, trial: IntervalTrial) -> Int32[Array, " periods"]:
        """The stimuli and the delay between them are drawn."""
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
"""Steps of error that are allowed at any interval: NeuroGym's 25 ms."""


class ProductionTask(TrialTask):
    """A trial that ends with an interval to produce: action 1 goes, and ends it.

    Going gives 1 if the interval is the right one. With an error it gives less, by
    `(1 - error / most) ** 1.5` but no less than 0.1; from an error above `most` on, it gives 0.
    There `most` is the margin times the interval, and 0.3125 steps. The trial ends after twice the
    interval.
    """

    num_actions = 2  #: Wait, go.

    @property
    @abstractmethod
    def intervals(self) -> tuple[int, ...]:
        """The intervals to produce, in steps; each trial draws one."""

    @property
    @abstractmethod
    def begun(self) -> int:
        """Steps of the interval that have passed when the last period begins."""

    @abstractmethod
    def which(self, trial: Any) -> Int32[Array, ""]:
        """The number of a trial's interval, from 0."""

    @property
    def best_return(self) -> float:
        """What going at the best step gives, a mean over the intervals."""
        return float(np.mean(np.max(self._payments(), axis=1)))

    @property
    def memoryless_return(self) -> float:
        """The most that going with one probability in each step gives.

        The steps of the last period look alike. With probability q of waiting in each, the mean
        return is a polynomial in q.
        """
        payments = np.mean(self._payments(), axis=0)
        mean = Polynomial(np.array([1.0, -1.0])) * Polynomial(payments)
        stationary = np.clip(mean.deriv().roots().real, 0, 1)
        return float(max(mean(np.array([0.0, 1.0, *stationary]))))

    @final
    def pay(
        self, trial: Any, response: Int32[Array, ""], waited: Int32[Array, ""]
    ) -> Float32[Array, ""]:
        """What going at this step gives."""
        return jnp.asarray(self._payments(), jnp.float32)[self.which(trial), waited]

    def _payments(self) -> np.ndarray:
        """What going gives, by the number of the interval and the steps waited."""
        interval = np.array(self.intervals)[:, None]
        waited = np.arange(2 * max(self.intervals))
        most = self.config.margin * interval + TOLERANCE
        error = np.abs(waited + self.begun - interval)
        paid = np.maximum(np.maximum(1 - error / most, 0) ** 1.5, 0.1)
        return np.where((error <= most) & (waited < 2 * interval), paid, 0.0)


@dataclass(frozen=True)
class IntervalTimingConfig:
    """The periods of interval timing, in steps, and its two intervals.

    The defaults are NeuroGym's at 80 ms a step, but for the set signal: its 50 ms are no step.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 6  #: Nothing is shown, 1 or more.
    shortest_cue: int = 12  #: The cue is shown, 1 or more.
    longest_cue: int = 37  #: The cue is drawn up to this.
    set: int = 1  #: The signal that the interval begins next, 0 or more.
    short: int = 10  #: One interval, 1 or more.
    long: int = 19  #: The other interval.
    margin: float = 0.2  #: The error that is allowed, a part of the interval, 0 or more.

    def __post_init__(self) -> None:
        least = {"fixation": 1, "shortest_cue": 1, "longest_cue": 1, "set": 0, "short": 1}
        check_steps(self, least | {"long": 1})
        check_range(self, "shortest_cue", "longest_cue")
        check_range(self, "short", "long")
        object.__setattr__(self, "margin", check_number("margin", self.margin))


class IntervalTimingTrial(eqx.Module):
    """The random variables of a trial."""

    interval: Int32[Array, "*batch"]  #: Number of the interval, 0 for short and 1 for long.
    cue: Int32[Array, "*batch"]  #: Steps of the cue.


@final
class IntervalTiming(ProductionTask):
    """A cue names one of two intervals, which is to be produced after the set signal.

    Seen are whether to fixate, which ends when the interval begins, the cue for the short interval,
    the cue for the long one, and the set signal.

    Source: Wang et al. 2018, "Flexible timing by temporal scaling of cortical responses";
    NeuroGym's `MotorTiming-v0`.

    Attributes:
        config: periods and intervals.
    """

    config: IntervalTimingConfig = eqx.field(static=True, default=IntervalTimingConfig())
    seen = 4  #: Fixation, two cues, and the set signal.
    begun = 0  #: The interval begins with the last period.

    @property
    def intervals(self) -> tuple[int, ...]:
        return self.config.short, self.config.long

    @property
    def periods(self) -> tuple[int, ...]:
        """Most steps of fixation, cue, set and production."""
        config = self.config
        return config.fixation, config.longest_cue, config.set, 2 * config.long

    def durations(self, trial: IntervalTimingTrial) -> Int32[Array, " periods"]:
        """The cue is drawn, and the last period lasts twice the interval."""
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
        """The cue, and the set signal in its period, where the cue stays."""
        cues = ((period == 1) | (period == 2)) & (jnp.arange(2) == trial.interval)
        return jnp.append(cues, period == 2).astype(jnp.float32)

    def which(self, trial: IntervalTimingTrial) -> Int32[Array, ""]:
        return trial.interval


@dataclass(frozen=True)
class ReadySetGoConfig:
    """The periods of ready-set-go, in steps, and the intervals that are measured.

    The defaults are NeuroGym's at 80 ms a step.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is out of range.
    """

    fixation: int = 1  #: Nothing is shown, 1 or more.
    ready: int = 1  #: The first signal is shown, 1 or more.
    shortest: int = 10  #: Steps from the begin of ready to the begin of set, `ready` or more.
    longest: int = 18  #: The measure is drawn up to this.
    set: int = 1  #: The second signal is shown, 1 or more.
    gain: int = 1  #: Ratio of the interval to produce to the measure, 1 or more.
    margin: float = 0.2  #: The error that is allowed, a part of the interval, 0 or more.

    def __post_init__(self) -> None:
        least = {"fixation": 1, "ready": 1, "shortest": 1, "longest": 1, "set": 1, "gain": 1}
        check_steps(self, least)
        check_range(self, "ready", "shortest")
        check_range(self, "shortest", "longest")
        object.__setattr__(self, "margin", check_number("margin", self.margin))


class ReadySetGoTrial(eqx.Module):
    """The random variable of a trial."""

    measure: Int32[Array, "*batch"]  #: Steps from the begin of ready to the begin of set.


@final
class ReadySetGo(ProductionTask):
    """Two signals measure an interval, which is to be produced from the second one on.

    Seen are whether to fixate, which ends with the second signal, and both signals. Going during
    the second signal does nothing.

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
        """The second signal: the interval begins with it."""
        return self.config.set

    @property
    def periods(self) -> tuple[int, ...]:
        """Most steps of fixation, ready, the rest of the measure, set and production."""
        config = self.config
        measured = (config.ready, config.longest - config.ready)
        return (config.fixation, *measured, config.set, 2 * max(self.intervals))

    def durations(self, trial: ReadySetGoTrial) -> Int32[Array, " periods"]:
        """The measure is drawn, and the last period lasts twice the interval."""
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
