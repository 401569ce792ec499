"""The report of an update on the device, and its metrics on the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree


@dataclass(frozen=True)
class Metrics:
    """The metrics of one dispatch: one call of the compiled program, with one or more updates.

    Attributes:
        env_steps: environment steps since the start of training, over all environments.
        updates: updates since the start of training.
        seconds: duration of the dispatch, without compilation.
        steps_per_second: environment steps of the dispatch per second.
        episodes: number of episodes that ended in the dispatch.
        episode: means over these episodes; empty without episodes. `return` (undiscounted),
            `length` (steps), and the metrics of the environment.
        reward: the mean of each reward term per episode: its sum over the dispatch, divided by
            `episodes`; empty without episodes.
        learning: means over the updates. `policy_loss`, `value_loss`, `entropy`, `approx_kl`,
            `clip_fraction` (see `LossMetrics`), `gradient_norm` (before clipping),
            `explained_variance` (see `Targets`), `learning_rate`, `loss_scale` (with float16,
            after each update); `gradient_steps` and `skipped` (steps with a gradient that was not
            finite) are totals. `aux_terms_loss`, `aux_end_loss` and `aux_win_loss` (see
            `AuxiliaryMetrics`) are means over the minibatches that compute them, and missing
            without any. `kl` needs a loss with `true_kl`.
        dispatched: number of updates in the dispatch.
        extra: the algorithm's counters, and the numbers of hooks, by name.
    """

    env_steps: int
    updates: int
    seconds: float
    steps_per_second: float
    episodes: int
    episode: Mapping[str, float] = field(default_factory=dict)
    reward: Mapping[str, float] = field(default_factory=dict)
    learning: Mapping[str, int | float] = field(default_factory=dict)
    dispatched: int = 1
    extra: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, int | float]:
        """All numbers by name; reward terms as `reward/<name>`."""
        names = ("env_steps", "updates", "seconds", "steps_per_second", "episodes")
        return {
            **{name: getattr(self, name) for name in names},
            **self.episode,
            **{f"reward/{name}": value for name, value in self.reward.items()},
            **self.learning,
            **self.extra,
        }

    def summary(self) -> str:
        """The most important numbers in one line."""
        parts = [f"{self.env_steps:>12,} steps", f"{self.steps_per_second:>9,.0f}/s"]
        shown = {"return": 2, "length": 1, "stage": 2}
        parts += [
            f"{name} {self.episode[name]:.{digits}f}"
            for name, digits in shown.items()
            if name in self.episode
        ]
        parts += [
            f"{name.replace('_', ' ')} {self.learning[name]:.3g}"
            for name in ("entropy", "approx_kl", "value_loss", "explained_variance", "q_loss")
            if name in self.learning
        ]
        if "q_loss" in self.learning:  # the first updates only fill the buffer
            parts.append(f"gradient steps {self.learning.get('gradient_steps', 0):,}")
        if "eval/return" in self.extra:
            parts.append(f"eval/return {self.extra['eval/return']:.2f}")
        return "  ".join(parts)


@dataclass(frozen=True)
class Dispatch:
    """The host's data about one call of the compiled program, with `count` updates.

    `updates`, `env_steps` (over all environments) and `progress` (`Algorithm.progress`) count from
    the start of training. `seconds` is the duration of the call, without compilation.
    """

    count: int
    updates: int
    env_steps: int
    seconds: float
    progress: int = 0


class StepReport(eqx.Module):
    """The report of gradient steps. Reports can be added.

    Attributes:
        metrics: the metrics of the loss, summed over the measured steps.
        gradient_norm: the norm before clipping, summed over the measured steps.
        measured: number of steps with a finite gradient that were active.
        steps: number of applied steps.
        skipped: number of steps skipped because the gradient was not finite.
    """

    metrics: PyTree[Array]
    gradient_norm: Float32[Array, "*axes"]
    measured: Int32[Array, "*axes"]
    steps: Int32[Array, "*axes"]
    skipped: Int32[Array, "*axes"]

    def totals(self) -> dict[str, Any]:
        """The sums over the measured steps, by name, on the device or on the host."""
        named: dict[str, Any] = {}
        found = self.metrics if isinstance(self.metrics, dict) else vars(self.metrics)
        for name, value in found.items():
            named |= value if isinstance(value, dict) else {name: value}
        named["gradient_norm"] = self.gradient_norm
        return {
            name: total
            for name, total in named.items()
            if total is not None and not isinstance(total, eqx.Module)
        }

    def means(self) -> dict[str, float]:
        """The means over the measured steps, by name, on the host; empty without such a step."""
        count = int(self.measured)
        return {name: float(total) / count for name, total in self.totals().items() if count}

    def counts(self) -> dict[str, int]:
        """The numbers of steps, by name, on the host."""
        return {"gradient_steps": int(self.steps), "skipped": int(self.skipped)}


class UpdateReport(eqx.Module):
    """The report of an update, on the device. Reports can be added.

    Attributes:
        episodes: sums over the episodes that ended, with `count`, `totals` and `means` as in
            `EpisodeSums`.
        steps: the report of the gradient steps.
        means: metrics that are means over updates, by name.
    """

    episodes: Any
    steps: StepReport
    means: Mapping[str, Float32[Array, ""]]

    def totals(self) -> dict[str, tuple[Array, Array]]:
        """By name, the sums whose means are metrics, and their divisors."""
        steps, once = self.steps, jnp.ones_like(self.steps.gradient_norm)
        return {
            **{name: (total, once) for name, total in self.means.items()},
            **{name: (total, steps.measured) for name, total in steps.totals().items()},
            **{name: (total, self.episodes.count) for name, total in self.episodes.totals.items()},
        }

    def metrics(self, dispatch: Dispatch, *, batch: int) -> Metrics:
        """The metrics of a dispatch, on the host, from the sum of the reports of its updates.

        `batch` is the number of environment steps per update.
        """
        episode, reward = self.episodes.means()
        return Metrics(
            env_steps=dispatch.env_steps,
            updates=dispatch.updates,
            seconds=dispatch.seconds,
            steps_per_second=dispatch.count * batch / max(dispatch.seconds, 1e-9),
            episodes=int(self.episodes.count),
            episode=episode,
            reward=reward,
            learning={
                **self.steps.means(),
                **{name: float(total) / dispatch.count for name, total in self.means.items()},
                **self.steps.counts(),
            },
        )
