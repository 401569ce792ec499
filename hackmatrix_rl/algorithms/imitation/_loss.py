"""The loss and the metrics of imitation."""

from collections.abc import Mapping
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from hackmatrix_rl.agent import Batch, LossMetrics, MaskedCategorical, NetworkOutput
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of
from hackmatrix_rl.algorithms.imitation._labelling import Label
from hackmatrix_rl.training import Dispatch, Metrics, UpdateReport


class CloneLoss(eqx.Module):
    """Behaviour cloning: cross-entropy between the teacher's action and the student's policy.

    If the batch has the teacher's probabilities (`Batch.teacher_log_probs`), they replace its
    action. The value targets of the batch are returns of whoever played, teacher or student.

    Attributes:
        vf_coef: weight of the value loss.
        special_from: the first action with weight `special_weight`; `None`: all have weight 1.
        special_weight: weight of the actions from `special_from` on.
    """

    vf_coef: float = eqx.field(static=True, default=0.5)
    special_from: int | None = eqx.field(static=True, default=None)
    special_weight: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not self.vf_coef >= 0:
            raise ValueError(f"vf_coef must not be negative, but is {self.vf_coef}")
        if not self.special_weight > 0:
            raise ValueError(f"special_weight must be positive, not {self.special_weight}")

    def prepare(self, batch: Batch) -> tuple["CloneLoss", Batch]:
        """The loss and the batch, unchanged: the loss is a mean over samples."""
        return self, batch

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], LossMetrics]:
        """The loss of a policy on a batch whose actions are the teacher's, and its metrics.

        `LossMetrics.policy_loss` is the weighted cross-entropy. The metrics that compare with the
        behaviour policy are 0.
        """
        evaluator = evaluator_of(policy)
        found = NetworkOutput.from_policy(evaluator, batch)
        pi = evaluator.policy.distribution(found.logits, batch.mask)
        if batch.teacher_log_probs is None:
            cross_entropy = -pi.log_prob(batch.action)
        else:
            assert isinstance(pi, MaskedCategorical)  # soft labels need `Discrete` actions
            cross_entropy = pi.cross_entropy(jnp.exp(batch.teacher_log_probs))
        if self.special_from is not None:
            special = batch.action >= self.special_from
            cross_entropy = cross_entropy * jnp.where(special, self.special_weight, 1.0)
        policy_loss, value_loss = jnp.mean(cross_entropy), found.value_loss(batch)
        zero = jnp.zeros((), jnp.float32)
        return policy_loss + self.vf_coef * value_loss, LossMetrics(
            policy_loss=policy_loss,
            value_loss=value_loss,
            entropy=jnp.mean(pi.entropy()),
            approx_kl=zero,
            clip_fraction=zero,
        )


Kinds = tuple[tuple[str, int, int], ...]
"""Kinds of actions with a separate accuracy: name, first action, and the one after the last."""

_OF_PPO = ("policy_loss", "approx_kl", "clip_fraction")


class Agreement(eqx.Module):
    """The agreement of student and teacher, before the gradient steps on these positions.

    Every field is a sum over the positions of an update: their number, how often the student's most
    likely action was the teacher's (`None` for real numbers), the student's cross-entropy in nats,
    and how often the teacher played. `of_kind` has the number and the agreement by kind of the
    teacher's action.
    """

    count: Float32[Array, ""]
    agreed: Float32[Array, ""] | None
    cross_entropy: Float32[Array, ""]
    taught: Float32[Array, ""]
    of_kind: dict[str, tuple[Float32[Array, ""], Float32[Array, ""]]]

    @classmethod
    def from_labels(cls, labels: Label, kinds: Kinds) -> "Agreement":
        """The sums of a rollout."""

        def count(where: Bool[Array, "num_steps num_envs"]) -> Float32[Array, ""]:
            return jnp.sum(where.astype(jnp.float32))

        agreed = labels.mode == labels.action
        agreed = jnp.all(agreed, axis=tuple(range(labels.log_prob.ndim, agreed.ndim)))
        counts = not jnp.issubdtype(labels.action.dtype, jnp.floating)
        of_kind = {}
        for name, first, end in kinds:
            here = (labels.action >= first) & (labels.action < end)
            of_kind[name] = count(here), count(here & agreed)
        return cls(
            count=count(jnp.ones_like(agreed)),
            agreed=count(agreed) if counts else None,
            cross_entropy=-jnp.sum(labels.log_prob),
            taught=count(labels.taught),
            of_kind=of_kind,
        )

    def read(self) -> Mapping[str, float]:
        """The metrics, on the host. A kind of action that the teacher never chose is left out."""
        count = float(self.count)
        accuracies = {
            f"accuracy_{name}": float(agreed) / float(here)
            for name, (here, agreed) in self.of_kind.items()
            if float(here)
        }
        if self.agreed is not None:
            accuracies["accuracy"] = float(self.agreed) / count
        return {
            **accuracies,
            "label_cross_entropy": float(self.cross_entropy) / count,
            "teacher_played": float(self.taught) / count,
        }


class ImitationMetrics(eqx.Module):
    """The report of an update of PPO, and the agreement with the teacher."""

    update: UpdateReport
    agreement: Agreement

    def metrics(self, dispatch: Dispatch, *, batch: int) -> Metrics:
        """The metrics of a dispatch, from sums over its updates on the host."""
        metrics = self.update.metrics(dispatch, batch=batch)
        learning = dict(metrics.learning)
        if "policy_loss" in learning:
            learning["cross_entropy"] = learning["policy_loss"]
        for name in _OF_PPO:
            learning.pop(name, None)
        return replace(metrics, learning={**self.agreement.read(), **learning})
