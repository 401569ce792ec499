"""The teacher of PPO's loss: a policy that does not change."""

from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl import agent
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.training.sharding import BY_STEP_AND_ENVIRONMENT, REPLICATED


def teacher_log_probs(
    teacher: ActorCritic | None, rollout: agent.Rollout, *, precision: PrecisionPolicy, mesh: Mesh
) -> Float32[Array, "num_steps num_envs num_parameters"] | None:
    """The parameters of a teacher's distributions, such as log-probabilities of all actions.

    Each device asks the teacher about its own environments, one step after another: that takes
    no more memory than acting does. `None` without a teacher.
    """
    if teacher is None:
        return None
    arrays, code = eqx.partition(precision.cast_to_compute(teacher), eqx.is_array)

    def on_one(
        arrays: Any, observations: PyTree[Array], masks: Bool[Array, "num_steps some mask_size"]
    ) -> Float32[Array, "num_steps some num_parameters"]:
        policy = eqx.combine(arrays, code)

        def one(step: tuple[Any, Any]) -> Float32[Array, "some num_parameters"]:
            observation, mask = step
            logits, _, _ = jax.vmap(lambda seen: policy(seen, policy.initial_carry()))(observation)
            return policy.distribution(logits, mask).parameters

        return jax.lax.map(one, (observations, masks))

    return jax.shard_map(
        on_one,
        mesh=mesh,
        in_specs=(REPLICATED, BY_STEP_AND_ENVIRONMENT, BY_STEP_AND_ENVIRONMENT),
        out_specs=BY_STEP_AND_ENVIRONMENT,
        check_vma=False,  # the specs say what varies over devices
    )(arrays, rollout.observation, rollout.mask)


def teaches_of(loss: Any, policy: ActorCritic) -> bool:
    """Whether a loss needs a teacher; raises if the policy cannot be one."""
    teaches = bool(getattr(loss, "needs_teacher", False))
    if teaches:
        check_teacher(policy)
    return teaches


def check_teacher(policy: ActorCritic) -> None:
    """Raises a ValueError if a network has memory: a rollout keeps the acting policy's."""
    if jax.tree.leaves(jax.eval_shape(policy.initial_carry)):
        raise ValueError(
            f"the KL to a teacher needs a network without memory; {type(policy).__name__} has one"
        )
