"""The arguments of `PPO`: defaults and checks, with the checks of a custom loss."""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, PyTree

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import ActorCritic, evaluator_of
from hackmatrix_rl.agent.precision import PrecisionPolicy, parameter_paths, parameters_of, path_name
from hackmatrix_rl.env import EnvSpec, check_blocks, check_is_environment, check_own_shapes
from hackmatrix_rl.system import errors
from hackmatrix_rl.training.sharding import ShardedCollector, devices_of_one

NUM_STEPS = 128
"""Steps of a rollout by default."""


def num_steps_of(given: Any, collector: Any) -> Any:
    """`num_steps`; where it is `None`, the collector's, or this package's default."""
    if collector is None:
        return NUM_STEPS if given is None else given
    errors.instance("collector", collector, agent.Collector, "RolloutCollector(128)")
    if given is not None and given != collector.num_steps:
        raise ValueError(
            f"num_steps is {given}, and the collector takes {collector.num_steps} steps; leave "
            "num_steps out"
        )
    return collector.num_steps


def losses_of(
    loss: Any, gae: Any, value_scale: Any
) -> tuple[Any, agent.AdvantageEstimator, agent.ValueScale]:
    """Loss, advantage estimator and value scale; this package's default for each `None`."""
    loss = agent.PPOLoss() if loss is None else loss
    gae = agent.GAE() if gae is None else gae
    value_scale = agent.RunningScale() if value_scale is None else value_scale
    check_loss(loss)
    errors.instance("gae", gae, agent.AdvantageEstimator, "hm.GAE(gamma=0.99)")
    errors.instance("value_scale", value_scale, agent.ValueScale, "RunningScale()")
    return loss, gae, value_scale


def target_kl_of(given: Any) -> float | None:
    """`target_kl` as a float; raises unless it is `None` or a positive number."""
    if given is not None and errors.finite("target_kl", given) <= 0:
        raise ValueError(f"target_kl must be positive or None, not {given}")
    return None if given is None else float(given)


def critic_warmup_of(given: Any, policy: ActorCritic) -> int:
    """`critic_warmup` as a whole number; raises if the policy has no value head to warm up."""
    if given == 0:
        return 0
    steps = errors.whole("critic_warmup", given)
    if not any(map(training.is_value_head, parameter_paths(policy))):
        raise ValueError(
            f"critic_warmup={steps} trains the parameters {training.VALUE_HEAD} alone; "
            f"{type(policy).__name__} has none of this name. Use a TrunkActorCritic, or 0"
        )
    return steps


def all_or_value_head(policy: ActorCritic, everything: Bool[Array, ""]) -> PyTree[Bool[Array, ""]]:
    """For each parameter, whether it changes: all do, or the value head's alone."""
    return jax.tree.map_with_path(
        lambda path, _: everything | training.is_value_head(path_name(path)), parameters_of(policy)
    )


def collector_of(
    given: agent.Collector | None, num_steps: int, loss: Any, spec: EnvSpec, mesh: Mesh
) -> agent.Collector:
    """The collector, or this package's for `None`; a `RolloutCollector` on each device."""
    # Only an auxiliary loss needs the parts of the reward of each step.
    terms = spec.terms if getattr(loss, "auxiliary", None) is not None else ()
    keep_log_probs = bool(getattr(loss, "needs_old_log_probs", False))
    if given is None:
        given = agent.RolloutCollector(num_steps, terms=terms, keep_log_probs=keep_log_probs)
    choice = getattr(given, "choice", agent.DRAWN)
    if not isinstance(choice, type(agent.DRAWN)):
        raise ValueError(
            f"collector chooses the actions by {type(choice).__name__}, and PPO learns from those "
            "drawn from the policy; leave choice out"
        )
    if terms and given.terms != terms:
        raise ValueError(
            f"collector keeps the terms {list(given.terms)}, and the auxiliary loss needs all of "
            "the environment; use terms=environment.spec.terms"
        )
    if keep_log_probs and not given.keep_log_probs:
        raise ValueError(
            "collector does not keep the log-probabilities of all actions, which the loss needs; "
            "use keep_log_probs=True"
        )
    # A subclass may collect in its own way, which `ShardedCollector` would not call.
    return ShardedCollector(given, mesh) if type(given) is agent.RolloutCollector else given


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


def check_games(environment: Any, num_envs: int, mesh: Mesh) -> None:
    """Checks the environment, and that `num_envs` of it divide over the devices of a mesh."""
    check_is_environment(environment)
    check_blocks(environment, num_envs, devices_of_one(mesh))
    check_own_shapes(environment)


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
    parameters = array(jnp.float32, spec.actions.num_parameters)
    auxiliary = agent.AuxiliaryTargets(
        terms=array(jnp.float16, len(spec.terms)), terminated=array(bool)
    )
    return agent.Batch(
        observation=jax.tree.map(lambda leaf: array(leaf.dtype, *leaf.shape), spec.observation),
        mask=array(bool, spec.actions.mask_size),
        action=array(spec.actions.dtype, *spec.actions.shape),
        log_prob=array(jnp.float32),
        value=array(jnp.float32),
        done=array(bool),
        initial_carry=jax.tree.map(lambda leaf: jnp.stack([leaf] * num_games), carry),
        advantage=array(jnp.float32),
        value_target=array(jnp.float32),
        auxiliary=None if getattr(loss, "auxiliary", None) is None else auxiliary,
        log_probs=parameters if getattr(loss, "needs_old_log_probs", False) else None,
        teacher_log_probs=parameters if getattr(loss, "needs_teacher", False) else None,
    )
