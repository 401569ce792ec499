"""A minibatch: what a loss reads."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree, Shaped, UInt32

from hackmatrix_rl.agent._auxiliary import AuxiliaryTargets
from hackmatrix_rl.agent._collector_state import PER_ENVIRONMENT, SHARED, OfEnvironments
from hackmatrix_rl.agent._gae import Targets
from hackmatrix_rl.agent._rollout import Rollout
from hackmatrix_rl.agent._value_scale import IDENTITY_SCALE, ValueScale


class Batch(OfEnvironments):
    """The argument of a loss: full sequences of some environments.

    Values are in the units of the network (see `ValueScale`). `observation`, `mask`, `action`,
    `log_prob`, `value` and `done` are as in `Rollout`, each leaf `[num_steps, batch, ...]`.

    Attributes:
        initial_carry: carry of the policy before the first step; each leaf `[batch, ...]`.
        advantage: advantage of the action, in units of reward.
        value_target: the value to learn.
        auxiliary: targets of the auxiliary loss; `None` unless the rollout keeps them.
        log_probs: log-probabilities of all actions under the policy that acted, minus infinity
            for illegal ones, or the parameters of another `Distribution`; `None` unless the loss
            has `needs_old_log_probs`.
        teacher_log_probs: the same under the teacher; `None` unless the loss has `needs_teacher`.
        number: index of the minibatch since the start of training.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "num_steps batch mask_size"]
    action: Shaped[Array, "num_steps batch *action"]
    log_prob: Float32[Array, "num_steps batch"]
    value: Float32[Array, "num_steps batch"]
    done: Bool[Array, "num_steps batch"]
    initial_carry: PyTree[Array] = eqx.field(metadata=PER_ENVIRONMENT)
    advantage: Float32[Array, "num_steps batch"]
    value_target: Float32[Array, "num_steps batch"]
    auxiliary: AuxiliaryTargets | None = None
    log_probs: Float32[Array, "num_steps batch num_parameters"] | None = None
    teacher_log_probs: Float32[Array, "num_steps batch num_parameters"] | None = None
    number: UInt32[Array, ""] = eqx.field(
        default_factory=lambda: jnp.zeros((), jnp.uint32), metadata=SHARED
    )

    @classmethod
    def from_rollout(
        cls,
        rollout: Rollout,
        targets: Targets,
        value_scale: ValueScale = IDENTITY_SCALE,
        *,
        number: UInt32[Array, ""] | None = None,
        teacher_log_probs: Float32[Array, "num_steps num_envs num_parameters"] | None = None,
    ) -> "Batch":
        """Makes a batch of a full rollout.

        Args:
            rollout: the rollout.
            targets: advantages and value targets of the rollout.
            value_scale: the units in which the network learns values.
            number: index of the minibatch; 0 by default.
            teacher_log_probs: log-probabilities of all actions under a teacher, if there is one.
        """
        auxiliary = None
        if rollout.terms is not None:
            auxiliary = AuxiliaryTargets(terms=rollout.terms, terminated=rollout.terminated)
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
            auxiliary=auxiliary,
            log_probs=rollout.log_probs,
            teacher_log_probs=teacher_log_probs,
            number=jnp.zeros((), jnp.uint32) if number is None else number,
        )

    of = from_rollout  #: The former name, for one version.

    def select(self, environments: Int32[Array, " some"]) -> "Batch":
        """The sequences of the environments with these indices."""
        return self.along_environments(lambda leaf, axis: jnp.take(leaf, environments, axis=axis))

    def select_from_blocks(self, environments: Int32[Array, " blocks"]) -> "Batch":
        """The sequences of one environment from each block: the same result as `select`.

        It needs no communication if each device holds full blocks.

        Args:
            environments: one index for each block. The environments are split into equal
                contiguous blocks, one for each index. Index `i` must be in block `i`.
        """
        blocks = environments.shape[0]
        size = self.action.shape[1] // blocks

        def pick(leaf: Array, axis: int) -> Array:
            split = leaf.reshape(*leaf.shape[:axis], blocks, size, *leaf.shape[axis + 1 :])
            return jax.vmap(
                lambda block, place: jax.lax.dynamic_index_in_dim(block, place, axis, False),
                in_axes=(axis, 0),
                out_axes=axis,
            )(split, environments % size)

        return self.along_environments(pick)

    def along_environments(self, change: Callable[..., Array]) -> "Batch":
        """Applies `change(array, axis)` to each array that has an axis of environments."""
        changed = {
            name: jax.tree.map(partial(change, axis=axis), getattr(self, name))
            for name, axis in self.environment_axes().items()
            if axis is not None
        }
        return replace(self, **changed)
