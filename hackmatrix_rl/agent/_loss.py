"""Proximal policy optimization: the loss."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree, UInt32

from hackmatrix_rl.agent._auxiliary import (
    AuxiliaryLoss,
    AuxiliaryMetrics,
    AuxiliaryTargets,
)
from hackmatrix_rl.agent._axes import PER_ENVIRONMENT, SHARED, environment_axes
from hackmatrix_rl.agent._distribution import MaskedCategorical
from hackmatrix_rl.agent._gae import Targets
from hackmatrix_rl.agent._rollout import Rollout
from hackmatrix_rl.agent._schedules import Scheduled, ends_of, number_of
from hackmatrix_rl.agent._value_scale import (
    IDENTITY_SCALE,
    ValueScale,
)
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    Evaluator,
    TrunkEvaluator,
    evaluator_of,
)


class Batch(eqx.Module):
    """The argument of a loss: whole sequences of some environments.

    Values are in the units of the network (see `ValueScale`).

    Attributes:
        observation: the observation of each step; each leaf `[num_steps, batch, ...]`.
        mask: the legal actions of the observation.
        action: the action that the policy took.
        log_prob: log-probability of the action under the policy that acted.
        value: value of the observation by the policy that acted.
        done: whether an episode ended with this action.
        initial_carry: memory of the policy before the first step; each leaf `[batch, ...]`.
        advantage: advantage of the action, in units of reward.
        value_target: the value to learn.
        auxiliary: targets of the auxiliary loss; `None` unless the rollout keeps them.
        log_probs: log-probabilities of all actions under the policy that acted, minus infinity
            for illegal ones; `None` unless the loss has `needs_old_log_probs`.
        teacher_log_probs: the same of the teacher; `None` unless the loss has `needs_teacher`.
        number: number of the minibatch, counted from the start of training.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "num_steps batch num_actions"]
    action: Int32[Array, "num_steps batch"]
    log_prob: Float32[Array, "num_steps batch"]
    value: Float32[Array, "num_steps batch"]
    done: Bool[Array, "num_steps batch"]
    initial_carry: PyTree[Array] = eqx.field(metadata=PER_ENVIRONMENT)
    advantage: Float32[Array, "num_steps batch"]
    value_target: Float32[Array, "num_steps batch"]
    auxiliary: AuxiliaryTargets | None = None
    log_probs: Float32[Array, "num_steps batch num_actions"] | None = None
    teacher_log_probs: Float32[Array, "num_steps batch num_actions"] | None = None
    number: UInt32[Array, ""] = eqx.field(
        default_factory=lambda: jnp.zeros((), jnp.uint32), metadata=SHARED
    )

    @staticmethod
    def environment_axes() -> dict[str, int | None]:
        """The axis of environments of each field; `None` for a field without this axis."""
        return environment_axes(Batch, default=1)

    @classmethod
    def of(
        cls,
        rollout: Rollout,
        targets: Targets,
        value_scale: ValueScale = IDENTITY_SCALE,
        *,
        number: UInt32[Array, ""] | None = None,
        teacher_log_probs: Float32[Array, "num_steps num_envs num_actions"] | None = None,
    ) -> "Batch":
        """A batch of a whole rollout.

        Args:
            rollout: the rollout.
            targets: advantages and value targets of the rollout.
            value_scale: the units in which the network learns values.
            number: number of the minibatch; 0 by default.
            teacher_log_probs: log-probabilities of all actions under a teacher, if there is one.
        """
        return cls(
            observation=rollout.observation,
            mask=rollout.mask,
            action=rollout.action,
            log_prob=rollout.log_prob,
            value=rollout.value,
            done=rollout.done,
            initial_carry=rollout.initial_carry,
            advantage=targets.advantage,
            value_target=value_scale.normalize(targets.value_target),
            auxiliary=None
            if rollout.terms is None
            else AuxiliaryTargets(terms=rollout.terms, terminated=rollout.terminated),
            log_probs=rollout.log_probs,
            teacher_log_probs=teacher_log_probs,
            number=jnp.zeros((), jnp.uint32) if number is None else number,
        )

    def select(self, environments: Int32[Array, " some"]) -> "Batch":
        """The sequences of the environments with these indices."""
        return self.along_environments(lambda leaf, axis: jnp.take(leaf, environments, axis=axis))

    def select_from_blocks(self, environments: Int32[Array, " blocks"]) -> "Batch":
        """The sequences of one environment of each block: the same result as `select`.

        If each device holds whole blocks, no device sends anything to another.

        Args:
            environments: one index for each block. The environments are cut into equal blocks of
                neighbours, one for each index. The i-th index must lie in the i-th block.
        """
        blocks = environments.shape[0]
        size = self.action.shape[1] // blocks

        def pick(leaf: Array, axis: int) -> Array:
            apart = leaf.reshape(*leaf.shape[:axis], blocks, size, *leaf.shape[axis + 1 :])
            return jax.vmap(
                lambda block, place: jax.lax.dynamic_index_in_dim(block, place, axis, False),
                in_axes=(axis, 0),
                out_axes=axis,
            )(apart, environments % size)

        return self.along_environments(pick)

    def along_environments(self, change: Callable[..., Array]) -> "Batch":
        """Applies a function to each array that has an axis of environments.

        Args:
            change: a function of an array and its `axis` of environments to a new array.
        """
        changed = {
            name: jax.tree.map(partial(change, axis=axis), getattr(self, name))
            for name, axis in self.environment_axes().items()
            if axis is not None
        }
        return replace(self, **changed)


class LossMetrics(eqx.Module):
    """Metrics of a loss; every field is a mean over the batch.

    Attributes:
        policy_loss: the clipped objective, negated.
        value_loss: half the squared error of the value, in units of the network, or what the
            network's `ValueHead` minimises.
        entropy: entropy of the policy, in nats.
        approx_kl: estimate of KL(old || new) from the actions taken, in nats.
        clip_fraction: share of the actions with a ratio outside of the clip range.
        extra: further numbers of a custom loss, by name.
        auxiliary: metrics of the auxiliary loss; `None` without one.
        kl: KL(old || new) over all legal actions, in nats; `None` if the loss does not compute
            it. `old` is the policy that acted, `new` the policy that learns.
    """

    policy_loss: Float32[Array, ""]
    value_loss: Float32[Array, ""]
    entropy: Float32[Array, ""]
    approx_kl: Float32[Array, ""]
    clip_fraction: Float32[Array, ""]
    extra: dict[str, Float32[Array, ""]] = eqx.field(default_factory=dict)
    auxiliary: AuxiliaryMetrics | None = None
    kl: Float32[Array, ""] | None = None

    @property
    def divergence(self) -> Float32[Array, ""]:
        """What `target_kl` limits: `kl` if the loss computes it, else `approx_kl`."""
        return self.approx_kl if self.kl is None else self.kl


class Unrolled(eqx.Module):
    """What a network says of a batch.

    Attributes:
        logits: of all actions.
        value: in units of the network.
        hidden: the trunk's output; `None` for a network that does not show it.
        own_value_loss: what the network's `ValueHead` minimises; `None` for a plain value, which
            learns by squared errors.
    """

    logits: Float32[Array, "num_steps batch num_actions"]
    value: Float32[Array, "num_steps batch"]
    hidden: Float[Array, "num_steps batch width"] | None
    own_value_loss: Float32[Array, "num_steps batch"] | None

    @staticmethod
    def of(policy: Evaluator, batch: Batch) -> "Unrolled":
        """What a policy says of a batch."""
        sequences = batch.observation, batch.initial_carry, batch.done
        if not isinstance(policy, TrunkEvaluator):
            return Unrolled(*policy.unroll(*sequences), None, None)
        hidden = policy.unroll_trunk(*sequences)
        own = policy.value_loss(hidden, batch.value_target)
        return Unrolled(*policy.apply_heads(hidden), hidden, own)

    def value_loss(self, batch: Batch, clip: float | None = None) -> Float32[Array, ""]:
        """The mean loss of the value: half the squared error, or that of the network's `ValueHead`.

        Args:
            batch: with the values to learn.
            clip: see `PPOLoss.value_clip`.

        Raises:
            ValueError: a clip is asked for, and the network's head has a loss of its own.
        """
        if self.own_value_loss is not None:
            if clip is not None:
                raise ValueError(
                    f"value_clip={clip} clips squared errors, but the network's value head has a "
                    "loss of its own. Use value_clip=None"
                )
            return jnp.mean(self.own_value_loss)
        error = (self.value - batch.value_target) ** 2
        if clip is not None:
            moved = jnp.clip(self.value - batch.value, -clip, clip)
            error = jnp.maximum(error, (batch.value + moved - batch.value_target) ** 2)
        return 0.5 * jnp.mean(error)


class PPOLoss(eqx.Module):
    """The loss of proximal policy optimization.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms". The clipped value
    loss is that of OpenAI's baselines (the larger of both errors). The estimate of the divergence
    is k3 of Schulman 2020, "Approximating KL divergence". The KL to a teacher: Schmitt et al.
    2018, "Kickstarting deep reinforcement learning"; Wolczyk et al. 2024, "Fine-tuning
    reinforcement learning models is secretly a forgetting mitigation problem".

    Attributes:
        clip_coef: clips the ratio of new to old probability to `1 - clip_coef` and
            `1 + clip_coef`.
        vf_coef: weight of the value loss.
        ent_coef: weight of the entropy bonus; a number or a schedule (see `at`).
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
            as many log-probabilities again.
    """

    clip_coef: float = eqx.field(static=True, default=0.2)
    vf_coef: float = eqx.field(static=True, default=0.5)
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
        if not self.clip_coef > 0:  # true for NaN
            raise ValueError(f"clip_coef must be positive, not {self.clip_coef}")
        if self.value_clip is not None and not self.value_clip > 0:
            raise ValueError(f"value_clip must be positive or None, not {self.value_clip}")
        for name in ("vf_coef", "ent_coef", "teacher_kl_coef"):
            for number in ends_of(getattr(self, name)):
                if not number >= 0:
                    raise ValueError(f"{name} must not be negative, but is {number}")

    def prepare(self, batch: Batch) -> tuple["PPOLoss", Batch]:
        """Normalizes the advantages over the whole batch, before the batch is cut into parts.

        Returns:
            A loss and a batch. The mean of this loss over equal parts of this batch is the loss
            on the whole batch.
        """
        if not self.normalize_advantage:
            return self, batch
        advantage = batch.advantage
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-6)
        return replace(self, normalize_advantage=False), replace(batch, advantage=advantage)

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], LossMetrics]:
        """The loss of a policy on a batch, and its metrics.

        Args:
            policy: the network, or an evaluator of it.
            batch: the batch.

        Raises:
            ValueError: the auxiliary loss finds no head in the policy or no targets in the batch;
                or the batch lacks `log_probs` or `teacher_log_probs`, which a KL needs.
        """
        _, batch = self.prepare(batch)
        evaluator = evaluator_of(policy)
        found = Unrolled.of(evaluator, batch)
        auxiliary = self._auxiliary(evaluator, found, batch)
        chances = MaskedCategorical(found.logits, batch.mask)
        log_ratio = chances.log_prob(batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        policy_loss = self._policy_loss(ratio, batch.advantage)
        value_loss = found.value_loss(batch, self.value_clip)
        entropy = jnp.mean(chances.entropy())

        loss = policy_loss + self.vf_coef * value_loss - number_of(self.ent_coef) * entropy
        auxiliary_metrics = None
        if auxiliary is not None:
            auxiliary_loss, auxiliary_metrics = auxiliary
            loss = loss + auxiliary_loss
        kl = None
        if self.true_kl:
            old = _needed(batch, "log_probs", "true_kl=True")
            kl = jnp.mean(old.divergence_from(chances))
        extra: dict[str, Float32[Array, ""]] = {}
        if self.needs_teacher:
            teacher = _needed(batch, "teacher_log_probs", "teacher_kl_coef=...")
            extra["teacher_kl"] = jnp.mean(teacher.divergence_from(chances))
            loss = loss + number_of(self.teacher_kl_coef) * extra["teacher_kl"]
        return loss, LossMetrics(
            policy_loss=policy_loss,
            value_loss=value_loss,
            entropy=entropy,
            approx_kl=jnp.mean(ratio - 1.0 - log_ratio),
            clip_fraction=jnp.mean((jnp.abs(ratio - 1.0) > self.clip_coef).astype(jnp.float32)),
            extra=extra,
            auxiliary=auxiliary_metrics,
            kl=kl,
        )

    def _auxiliary(
        self, policy: Evaluator, found: Unrolled, batch: Batch
    ) -> tuple[Float32[Array, ""], AuxiliaryMetrics] | None:
        """The auxiliary loss and its metrics; `None` without one."""
        if self.auxiliary is None:
            return None
        if not isinstance(policy, TrunkEvaluator) or policy.auxiliary is None:
            raise ValueError(
                "the auxiliary loss needs a policy to which add_auxiliary_head gave a head"
            )
        if batch.auxiliary is None:
            raise ValueError("the auxiliary loss needs a rollout that keeps the reward's terms")
        assert found.hidden is not None  # a TrunkEvaluator shows it
        return self.auxiliary(
            policy.auxiliary,
            found.hidden,
            batch.action,
            batch.auxiliary,
            batch.number,
            done=batch.done,
        )

    def _policy_loss(
        self,
        ratio: Float32[Array, "num_steps batch"],
        advantage: Float32[Array, "num_steps batch"],
    ) -> Float32[Array, ""]:
        clipped = jnp.clip(ratio, 1.0 - self.clip_coef, 1.0 + self.clip_coef)
        return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))


def _needed(batch: Batch, field: str, argument: str) -> MaskedCategorical:
    """The distributions whose log-probabilities a batch keeps in a field."""
    log_probs = getattr(batch, field)
    if log_probs is None:
        raise ValueError(
            f"PPOLoss({argument}) needs a batch with {field}, as the trainer makes it: see Batch.of"
        )
    return MaskedCategorical(log_probs, batch.mask)
