"""The metrics of imitation's updates."""

from collections.abc import Mapping
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from hackmatrix_rl.algorithms.imitation._labelling import Label
from hackmatrix_rl.training import Dispatch, Metrics, UpdateReport

Kinds = tuple[tuple[str, int, int], ...]
"""Kinds of actions that are counted apart: a name, the first action, and the one after the last."""

_OF_PPO = ("policy_loss", "approx_kl", "clip_fraction")


class Agreement(eqx.Module):
    """How well the student knew the teacher's actions, before it learned from these positions.

    Every field is a sum over the positions of an update.

    Attributes:
        count: number of positions.
        agreed: how often the student's likeliest action was the teacher's.
        surprise: cross-entropy in nats.
        taught: how often the teacher's action was played.
        of_kind: by kind of the teacher's action, number of positions and how often the student
            agreed.
    """

    count: Float32[Array, ""]
    agreed: Float32[Array, ""]
    surprise: Float32[Array, ""]
    taught: Float32[Array, ""]
    of_kind: dict[str, tuple[Float32[Array, ""], Float32[Array, ""]]]

    @classmethod
    def of(cls, labels: Label, kinds: Kinds) -> "Agreement":
        """The sums of a rollout.

        Args:
            labels: of the rollout.
            kinds: what is counted apart.
        """

        def count(where: Bool[Array, "num_steps num_envs"]) -> Float32[Array, ""]:
            return jnp.sum(where.astype(jnp.float32))

        agreed = labels.mode == labels.action
        of_kind = {}
        for name, first, end in kinds:
            here = (labels.action >= first) & (labels.action < end)
            of_kind[name] = count(here), count(here & agreed)
        return cls(
            count=count(jnp.ones_like(agreed)),
            agreed=count(agreed),
            surprise=-jnp.sum(labels.log_prob),
            taught=count(labels.taught),
            of_kind=of_kind,
        )

    def read(self) -> Mapping[str, float]:
        """The metrics, on the host. A kind that the teacher never chose has no accuracy."""
        count = float(self.count)
        accuracies = {
            f"accuracy_{name}": float(agreed) / float(here)
            for name, (here, agreed) in self.of_kind.items()
            if float(here)
        }
        return {
            "accuracy": float(self.agreed) / count,
            **accuracies,
            "label_cross_entropy": float(self.surprise) / count,
            "teacher_played": float(self.taught) / count,
        }


class ImitationMetrics(eqx.Module):
    """The report of an update.

    Attributes:
        update: episodes, gradient steps and scales, as PPO reports them.
        agreement: of student and teacher.
    """

    update: UpdateReport
    agreement: Agreement


def read_imitation(sums: ImitationMetrics, dispatch: Dispatch, *, batch: int) -> Metrics:
    """Computes the metrics of a dispatch from sums over its updates.

    Args:
        sums: reports of the updates, each leaf a scalar on the host summed over the dispatch.
        dispatch: number and position of these updates.
        batch: environment steps of one update.
    """
    metrics = sums.update.metrics(dispatch, batch=batch)
    learning = dict(metrics.learning)
    if "policy_loss" in learning:
        learning["cross_entropy"] = learning["policy_loss"]
    for name in _OF_PPO:
        learning.pop(name, None)
    return replace(metrics, learning={**sums.agreement.read(), **learning})
