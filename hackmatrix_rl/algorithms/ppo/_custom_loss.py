"""Checks of a custom loss of PPO: its arguments and its return value."""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from hackmatrix_rl import agent
from hackmatrix_rl.agent.networks import ActorCritic, evaluator_of
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.system import errors


def check_loss(loss: Any) -> None:
    """Raises a TypeError unless the loss can be called with a policy and a batch."""
    if isinstance(loss, type) or not callable(loss):
        hint = f": {loss.__name__}()" if isinstance(loss, type) else ", such as hm.PPOLoss()"
        raise TypeError(
            f"loss is {errors.described(loss)}; expected an instance that is called as "
            f"loss(policy, batch){hint}"
        )
    try:
        inspect.signature(loss).bind("policy", "batch")
    except TypeError as error:
        raise TypeError(
            f"loss: {errors.place(loss, '__call__')} takes {inspect.signature(loss)}; expected two "
            "arguments, (policy, batch)"
        ) from error


def check_output(
    loss: Any,
    policy: ActorCritic,
    spec: EnvSpec,
    precision: PrecisionPolicy,
    sizes: tuple[int, int],
) -> None:
    """Traces a loss on a batch with `sizes` steps and environments, and checks what it returns."""
    said = f"loss: {errors.place(loss, '__call__')}"

    def evaluate(loss: Any, policy: ActorCritic) -> Any:
        # The batch exists only while tracing and takes no memory.
        batch = _zeros(policy, spec, *sizes, loss)
        loss = agent.resolve_schedules(loss, jnp.float32(0))
        return loss(evaluator_of(precision.cast_to_compute(policy)), batch)

    try:
        found = eqx.filter_eval_shape(evaluate, loss, policy)
    except Exception as error:
        raise ValueError(
            f"{said} fails on a batch of {sizes[0]} steps of {sizes[1]} environments: "
            f"{errors.first_line(error)}"
        ) from error
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"{said} returns {errors.described(found)}; expected a tuple: return loss, "
            "LossMetrics(...)"
        )
    value, metrics = found
    errors.check_array(
        f"{said} returns as loss", value, "float32", (), hint="a mean over the batch, jnp.mean(...)"
    )
    if not isinstance(metrics, agent.LossMetrics):
        raise TypeError(
            f"{said} returns {errors.described(metrics)} as metrics; expected LossMetrics: "
            "return loss, hackmatrix_rl.agent.LossMetrics(...)"
        )
    for path, leaf in jax.tree.leaves_with_path(metrics):
        if hasattr(leaf, "dtype"):  # a Python number is accepted, too
            name = jax.tree_util.keystr(path).lstrip(".")
            errors.check_array(f"{said} returns LossMetrics whose {name} is", leaf, "float32", ())


def _zeros(
    policy: ActorCritic, spec: EnvSpec, num_steps: int, num_games: int, loss: Any
) -> agent.Batch:
    """A minibatch of zeros, with the optional fields that the loss needs."""

    def array(dtype: Any, *more: int) -> Array:
        return jnp.zeros((num_steps, num_games, *more), dtype)

    carry = policy.initial_carry()
    every_action = array(jnp.float32, int(spec.num_actions))
    auxiliary = agent.AuxiliaryTargets(
        terms=array(jnp.float16, len(spec.terms)), terminated=array(bool)
    )
    return agent.Batch(
        observation=jax.tree.map(lambda leaf: array(leaf.dtype, *leaf.shape), spec.observation),
        mask=array(bool, int(spec.num_actions)),
        action=array(jnp.int32),
        log_prob=array(jnp.float32),
        value=array(jnp.float32),
        done=array(bool),
        initial_carry=jax.tree.map(lambda leaf: jnp.stack([leaf] * num_games), carry),
        advantage=array(jnp.float32),
        value_target=array(jnp.float32),
        auxiliary=None if getattr(loss, "auxiliary", None) is None else auxiliary,
        log_probs=every_action if getattr(loss, "needs_old_log_probs", False) else None,
        teacher_log_probs=every_action if getattr(loss, "needs_teacher", False) else None,
    )
