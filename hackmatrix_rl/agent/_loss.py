"""Proximal policy optimization: the loss."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.agent._auxiliary import AuxiliaryLoss, AuxiliaryMetrics
from hackmatrix_rl.agent._batch import Batch
from hackmatrix_rl.agent._network_output import NetworkOutput, auxiliary_loss
from hackmatrix_rl.agent._schedules import Scheduled, ends_of, number_of
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of


class LossMetrics(eqx.Module):
    """Metrics of a loss; every field is a mean over the batch."""

    policy_loss: Float32[Array, ""]  #: The clipped objective, negated.
    #: Half the squared error of the value, in squared units of the network, or the loss of the
    #: network's `ValueHead`.
    value_loss: Float32[Array, ""]
    entropy: Float32[Array, ""]  #: Entropy of the policy, in nats.
    approx_kl: Float32[Array, ""]  #: Estimate of KL(old || new) from the actions taken, in nats.
    #: Fraction of the actions whose ratio is outside of the clip range.
    clip_fraction: Float32[Array, ""]
    #: Further metrics of a custom loss, by name.
    extra: dict[str, Float32[Array, ""]] = eqx.field(default_factory=dict)
    #: Metrics of the auxiliary loss; `None` without one.
    auxiliary: AuxiliaryMetrics | None = None
    #: KL(old || new) over all legal actions, in nats; `None` if the loss does not compute it. `old`
    #: is the policy that acted, `new` the policy that is trained.
    kl: Float32[Array, ""] | None = None

    @property
    def divergence(self) -> Float32[Array, ""]:
        """The divergence that `target_kl` limits: `kl` if it is computed, else `approx_kl`."""
        return self.approx_kl if self.kl is None else self.kl


class PPOLoss(eqx.Module):
    """The loss of proximal policy optimization.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms". The value loss is
    clipped as in OpenAI's baselines (the larger of both errors). The estimate of the divergence
    is k3 of Schulman 2020, "Approximating KL divergence". The KL to a teacher: Schmitt et al.
    2018, "Kickstarting deep reinforcement learning"; Wolczyk et al. 2024, "Fine-tuning
    reinforcement learning models is secretly a forgetting mitigation problem".

    Attributes:
        clip_coef: clips the ratio of new to old probability to `1 - clip_coef` and
            `1 + clip_coef`.
        vf_coef: weight of the value loss.
        ent_coef: weight of the entropy bonus; a number or a schedule (see `resolve_schedules`).
        value_clip: clips the difference of the new value from the acting policy's value, in units
            of the network; `None` for no clip.
        normalize_advantage: whether to scale the advantages of each minibatch to mean 0 and
            standard deviation 1.
        auxiliary: an auxiliary loss on the same hidden layer; `None` for none. It needs a
            `TrunkActorCritic` with an auxiliary head, and a rollout that keeps the parts of the
            reward.
        true_kl: whether to compute KL(old || new) over all legal actions (`LossMetrics.kl`), in
            addition to the estimate from the actions taken. A rollout then keeps the
            log-probabilities of all actions: 4 bytes for each action of each step.
        teacher_kl_coef: weight of KL(teacher || new) over all legal actions, which keeps the
            policy near a teacher; a number or a schedule; 0 without a teacher. A batch then keeps
            the teacher's log-probabilities of all actions, too.
    """

    clip_coef: float | Float32[Array, ""] = 0.2
    vf_coef: float | Float32[Array, ""] = 0.5
    ent_coef: Scheduled = 0.01
    value_clip: float | None = eqx.field(static=True, default=None)
    normalize_advantage: bool = eqx.field(static=True, default=True)
    auxiliary: AuxiliaryLoss | None = None
    true_kl: bool = eqx.field(static=True, default=False)
    teacher_kl_coef: Scheduled = 0.0

    @property
    def needs_old_log_probs(self) -> bool:
        """Whether a batch must have `log_probs`. A custom loss can have this attribute, too."""
        return self.true_kl

    @property
    def needs_teacher(self) -> bool:
        """Whether a batch must have `teacher_log_probs`. A custom loss can have this, too."""
        return ends_of(self.teacher_kl_coef) != (0.0,)

    def __check_init__(self) -> None:
        # `ends_of` is empty for an array: in a population, coefficients differ between members.
        if not all(number > 0 for number in ends_of(self.clip_coef)):  # also refuses NaN
            raise ValueError(f"clip_coef must be positive, not {self.clip_coef}")
        if self.value_clip is not None and not self.value_clip > 0:
            raise ValueError(f"value_clip must be positive or None, not {self.value_clip}")
        for name in ("vf_coef", "ent_coef", "teacher_kl_coef"):
            for number in ends_of(getattr(self, name)):
                if not number >= 0:
                    raise ValueError(f"{name} must not be negative, but is {number}")

    def prepare(self, batch: Batch) -> tuple["PPOLoss", Batch]:
        """Normalizes the advantages over the full batch, before the batch is split.

        Returns:
            A loss and a batch. The mean of this loss over equal parts of this batch is the loss
            on the full batch.
        """
        if not self.normalize_advantage:
            return self, batch
        advantage = batch.advantage
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-6)
        return replace(self, normalize_advantage=False), replace(batch, advantage=advantage)

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], LossMetrics]:
        """The loss of a policy, or of an evaluator of it, on a batch, and its metrics.

        Raises:
            ValueError: the auxiliary loss finds no head in the policy or no targets in the batch;
                or the batch lacks `log_probs` or `teacher_log_probs`, which a KL needs.
        """
        _, batch = self.prepare(batch)
        evaluator = evaluator_of(policy)
        found = NetworkOutput.from_policy(evaluator, batch)
        distribution = evaluator.policy.distribution
        pi = distribution(found.logits, batch.mask)
        log_ratio = pi.log_prob(batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1.0 - self.clip_coef, 1.0 + self.clip_coef)
        policy_loss = -jnp.mean(jnp.minimum(ratio * batch.advantage, clipped * batch.advantage))
        value_loss = found.value_loss(batch, self.value_clip)
        entropy = jnp.mean(pi.entropy())

        loss = policy_loss + self.vf_coef * value_loss - number_of(self.ent_coef) * entropy
        auxiliary = None
        if self.auxiliary is not None:
            added, auxiliary = auxiliary_loss(self.auxiliary, evaluator, found, batch)
            loss = loss + added
        kl = None
        if self.true_kl:
            old = distribution(*_needed(batch, "log_probs", "true_kl=True"))
            kl = jnp.mean(old.divergence_from(pi))
        extra: dict[str, Float32[Array, ""]] = {}
        if self.needs_teacher:
            teacher = distribution(*_needed(batch, "teacher_log_probs", "teacher_kl_coef=..."))
            extra["teacher_kl"] = jnp.mean(teacher.divergence_from(pi))
            loss = loss + number_of(self.teacher_kl_coef) * extra["teacher_kl"]
        return loss, LossMetrics(
            policy_loss=policy_loss,
            value_loss=value_loss,
            entropy=entropy,
            approx_kl=jnp.mean(ratio - 1.0 - log_ratio),
            clip_fraction=jnp.mean((jnp.abs(ratio - 1.0) > self.clip_coef).astype(jnp.float32)),
            extra=extra,
            auxiliary=auxiliary,
            kl=kl,
        )


def _needed(batch: Batch, field: str, argument: str) -> tuple[Array, Array]:
    """The parameters in a field of a batch, which an argument of the loss needs, and the mask."""
    log_probs = getattr(batch, field)
    if log_probs is None:
        raise ValueError(
            f"PPOLoss({argument}) needs a batch with {field}, such as the trainer makes: see "
            "Batch.from_rollout"
        )
    return log_probs, batch.mask
