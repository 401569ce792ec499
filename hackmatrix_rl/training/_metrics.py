"""The metrics of training, on the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
            `length` (steps), and the environment's own numbers.
        reward: by reward term, its sum over the dispatch divided by the number of these
            episodes; empty without episodes.
        learning: means over the updates. `policy_loss`, `value_loss`, `entropy`, `approx_kl`,
            `clip_fraction` (see `LossMetrics`), `gradient_norm` (before clipping),
            `explained_variance` (see `Targets`), `learning_rate`, `loss_scale` (under float16;
            after each update); `gradient_steps` and `skipped` (steps skipped because a
            gradient was not finite) are totals. `aux_terms_loss`, `aux_end_loss` and
            `aux_win_loss` (see `AuxiliaryMetrics`) are means over the minibatches that compute
            them, and missing without such a minibatch. `kl` is there if the loss has `true_kl`.
        dispatched: number of updates in the dispatch.
        extra: the algorithm's own counters, and the numbers that hooks returned, by name.
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
        return {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
            "episodes": self.episodes,
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
        if "q_loss" in self.learning:  # the first steps only fill a buffer
            parts.append(f"gradient steps {self.learning.get('gradient_steps', 0):,}")
        if "eval/return" in self.extra:
            parts.append(f"eval/return {self.extra['eval/return']:.2f}")
        return "  ".join(parts)
