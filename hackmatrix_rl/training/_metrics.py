"""What training reports, on the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hackmatrix_rl.agent import LossMetrics
from hackmatrix_rl.training._update import UpdateMetrics


@dataclass(frozen=True)
class Metrics:
    """What happened in one dispatch: the updates between two looks at the device.

    Attributes:
        env_steps: environment steps since the start of training, over all environments.
        updates: updates since the start of training.
        seconds: how long the dispatch took, without compilation.
        steps_per_second: environment steps of the dispatch in a second.
        episodes: number of episodes that ended in it.
        episode: means over these episodes; empty if there were none. `return` (undiscounted),
            `length` (steps), and the environment's own numbers.
        reward: by the name of a part of the reward, what was collected of it in the dispatch
            divided by the number of episodes that ended in it; empty likewise.
        learning: means over the updates. `policy_loss`, `value_loss`, `entropy`, `approx_kl`,
            `clip_fraction` (see `LossMetrics`), `gradient_norm` (before clipping),
            `explained_variance` (see `Targets`), `learning_rate`, `loss_scale` (under float16;
            after each update); `gradient_steps` and `skipped` (steps left out because a
            gradient was not finite) are totals. `aux_terms_loss` and `aux_end_loss` (see
            `AuxiliaryMetrics`) are means over the minibatches at which they were computed, and
            missing where none was.
    """

    env_steps: int
    updates: int
    seconds: float
    steps_per_second: float
    episodes: int
    episode: Mapping[str, float] = field(default_factory=dict)
    reward: Mapping[str, float] = field(default_factory=dict)
    learning: Mapping[str, int | float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, int | float]:
        """Everything by name; parts of the reward as `reward/<name>`."""
        return {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
            "episodes": self.episodes,
            **self.episode,
            **{f"reward/{name}": value for name, value in self.reward.items()},
            **self.learning,
        }

    def summary(self) -> str:
        """The most telling numbers in one line."""
        parts = [f"{self.env_steps:>12,} steps", f"{self.steps_per_second:>9,.0f}/s"]
        shown = {"return": 2, "length": 1, "stage": 2}
        parts += [
            f"{name} {self.episode[name]:.{digits}f}"
            for name, digits in shown.items()
            if name in self.episode
        ]
        parts += [
            f"{name.replace('_', ' ')} {self.learning[name]:.3g}"
            for name in ("entropy", "approx_kl", "value_loss", "explained_variance")
        ]
        return "  ".join(parts)


def read_metrics(
    sums: UpdateMetrics,
    *,
    dispatched: int,
    env_steps: int,
    updates: int,
    batch: int,
    seconds: float,
) -> Metrics:
    """Metrics from what the updates of a dispatch reported, summed up.

    Args:
        sums: each leaf a scalar on the host, summed over the updates of the dispatch.
        dispatched: number of these updates.
        env_steps: since the start of training.
        updates: since the start of training.
        batch: environment steps of one update.
        seconds: how long they took.
    """
    ended = float(sums.episodes.count)
    episode: dict[str, float] = {}
    reward: dict[str, float] = {}
    if ended:
        totals = {
            "return": sums.episodes.total_reward,
            "length": sums.episodes.length,
            **sums.episodes.extra,
        }
        episode = {name: float(total) / ended for name, total in totals.items()}
        reward = {name: float(total) / ended for name, total in sums.episodes.terms.items()}
    losses = sums.learned.losses
    means = {
        "policy_loss": losses.policy_loss,
        "value_loss": losses.value_loss,
        "entropy": losses.entropy,
        "approx_kl": losses.approx_kl,
        "clip_fraction": losses.clip_fraction,
        **losses.extra,
        "gradient_norm": sums.learned.gradient_norm,
        "explained_variance": sums.explained_variance,
        "learning_rate": sums.learning_rate,
        **sums.scaling,
    }
    learning: dict[str, int | float] = {
        name: float(total) / dispatched for name, total in means.items()
    }
    learning |= _auxiliary(losses)
    learning["gradient_steps"] = int(sums.learned.steps)
    learning["skipped"] = int(sums.learned.skipped)
    return Metrics(
        env_steps=env_steps,
        updates=updates,
        seconds=seconds,
        steps_per_second=dispatched * batch / max(seconds, 1e-9),
        episodes=int(ended),
        episode=episode,
        reward=reward,
        learning=learning,
    )


def _auxiliary(losses: LossMetrics) -> dict[str, float]:
    """The parts of the auxiliary loss: sums over what was due, divided by how much that was."""
    auxiliary = losses.auxiliary
    if auxiliary is None or not float(auxiliary.due):
        return {}
    due = float(auxiliary.due)
    return {
        "aux_terms_loss": float(auxiliary.terms) / due,
        "aux_end_loss": float(auxiliary.terminated) / due,
    }
