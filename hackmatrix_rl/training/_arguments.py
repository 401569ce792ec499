"""Checks the arguments of a `Trainer` before anything is traced or compiled."""

import inspect
import math
import numbers
from dataclasses import dataclass, fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array

from hackmatrix_rl.agent import (
    GAE,
    AdvantageEstimator,
    AuxiliaryTargets,
    Batch,
    Constant,
    LossMetrics,
    PPOLoss,
    RunningScale,
    Schedule,
    ValueScale,
    at,
    check_policy_shapes,
    ends_of,
)
from hackmatrix_rl.agent.networks import ActorCritic, evaluator_of
from hackmatrix_rl.agent.precision import PrecisionPolicy, parameter_paths
from hackmatrix_rl.env import (
    Environment,
    EnvSpec,
    check_shapes,
)
from hackmatrix_rl.errors import (
    check_array,
    described,
    first_line,
    instance,
    is_ours,
    number,
    place,
    whole,
)
from hackmatrix_rl.training._minibatches import Minibatches
from hackmatrix_rl.training._optimizer import adam
from hackmatrix_rl.training._state import VALUE_HEAD, is_value_head
from hackmatrix_rl.training.sharding import (
    check_axes,
    check_split,
    mesh,
    single_device,
)


def finite(name: str, value: Any) -> float:
    """The argument as a float; raises a TypeError or ValueError unless it is a finite number."""
    found = number(name, value)
    if not math.isfinite(found):
        raise ValueError(f"{name} must be a finite number, not {found}")
    return found


@dataclass(frozen=True)
class Sizes:
    """The sizes of an update. Each is a whole number, 1 or more.

    `num_minibatches * grad_accum` must divide `num_envs`.

    Attributes:
        num_envs: number of environments.
        num_steps: steps of each environment in an update.
        num_minibatches: number of minibatches in one pass over a rollout.
        update_epochs: number of passes over a rollout.
        grad_accum: number of parts of a minibatch.
    """

    num_envs: int
    num_steps: int
    num_minibatches: int
    update_epochs: int
    grad_accum: int

    def __post_init__(self) -> None:
        for each in fields(self):
            checked = whole(each.name, getattr(self, each.name))
            object.__setattr__(self, each.name, checked)
        self.minibatches.check(self.num_envs, parts=self.grad_accum)

    @property
    def minibatches(self) -> Minibatches:
        """The minibatches of an update."""
        return Minibatches(self.num_minibatches, self.update_epochs)

    @property
    def at_once(self) -> int:
        """Number of environments in one call of the loss."""
        return self.num_envs // (self.num_minibatches * self.grad_accum)


def losses_of(loss: Any, gae: Any, value_scale: Any) -> tuple[Any, AdvantageEstimator, ValueScale]:
    """Loss, advantage estimator and value scale; this package's default for each `None`.

    Raises:
        TypeError: an argument has the wrong type.
    """
    loss = PPOLoss() if loss is None else loss
    gae = GAE() if gae is None else gae
    value_scale = RunningScale() if value_scale is None else value_scale
    check_loss(loss)
    instance("gae", gae, AdvantageEstimator, "hm.GAE(gamma=0.99)")
    instance("value_scale", value_scale, ValueScale, "RunningScale()")
    return loss, gae, value_scale


def target_kl_of(given: Any) -> float | None:
    """`target_kl` as a float; raises unless it is `None` or a positive number."""
    if given is not None and finite("target_kl", given) <= 0:
        raise ValueError(f"target_kl must be positive or None, not {given}")
    return None if given is None else float(given)


def critic_warmup_of(given: Any, policy: ActorCritic) -> int:
    """`critic_warmup` as a whole number; raises if the policy has no value head to warm up."""
    if given == 0:
        return 0
    steps = whole("critic_warmup", given)
    if not any(map(is_value_head, parameter_paths(policy))):
        raise ValueError(
            f"critic_warmup={steps} trains the parameters {VALUE_HEAD} alone; "
            f"{type(policy).__name__} has none of this name. Use a TrunkActorCritic, or 0"
        )
    return steps


def mesh_of(given: Any, sizes: Sizes) -> Mesh:
    """The mesh that the argument is, or that its text describes; one device for `None`.

    Raises:
        TypeError: the argument is neither a mesh nor a text.
        ValueError: the devices here cannot form the mesh of the text, or the mesh does not
            divide the sizes.
    """
    if isinstance(given, str):
        given = mesh(given)
    made = single_device() if given is None else given
    instance("mesh", made, Mesh, 'hm.mesh("data=2")')
    check_axes(made)
    check_split(
        made.shape,
        num_envs=sizes.num_envs,
        num_minibatches=sizes.num_minibatches,
        grad_accum=sizes.grad_accum,
    )
    found: Mesh = made
    return found


def optimizer_of(
    optimizer: Any, learning_rate: Any
) -> tuple[optax.GradientTransformation, Schedule]:
    """Optimizer and learning rate; the defaults are those of `Trainer`.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a learning rate is negative or not finite.
    """
    if learning_rate is None:
        learning_rate = 3e-4 if optimizer is None else 1.0
    rate = _schedule(learning_rate)
    if optimizer is None:
        return adam(), rate
    check_optimizer(optimizer)
    return optimizer, rate


def _schedule(given: Any) -> Schedule:
    """The argument if it is a schedule; a constant schedule if it is a number."""
    if not isinstance(given, Schedule):
        if callable(given):
            raise TypeError(
                f"learning_rate is {described(given)}; expected a number, or an instance of "
                "hackmatrix_rl.training.Schedule: learning_rate=Linear(3e-4, 0.0, "
                "over=total_timesteps). Schedules of optax go into the optimizer: "
                "optimizer=optax.adam(schedule)"
            )
        given = Constant(finite("learning_rate", given))
    for end in ends_of(given):
        if finite("learning_rate", end) < 0:
            raise ValueError(f"learning_rate is {end:g}; expected 0 or more: use {-end:g}")
    said = f"{place(given, '__call__')}, a schedule, returns"
    rate = eqx.filter_eval_shape(given, jax.ShapeDtypeStruct((), jnp.float32))
    check_array(said, rate, "float32", ())
    schedule: Schedule = given
    return schedule


def check_optimizer(given: Any) -> None:
    """Raises a TypeError unless the argument has `init` and `update`, as optax's optimizers."""
    if not isinstance(given, type) and all(
        callable(getattr(given, name, None)) for name in ("init", "update")
    ):
        return
    said = f"optimizer is {described(given)}; expected an optax.GradientTransformation"
    if isinstance(given, numbers.Real):
        raise TypeError(
            f"{said}: learning_rate={given} for the default one, or optimizer=optax.adam({given})"
        )
    if inspect.isroutine(given):
        raise TypeError(f"{said}: call the function, optimizer=optax.{given.__name__}(3e-4), say")
    raise TypeError(f"{said}: optimizer=optax.adam(3e-4)")


def check_loss(loss: Any) -> None:
    """Raises a TypeError unless the loss can be called with a policy and a batch."""
    if isinstance(loss, type) or not callable(loss):
        hint = f": {loss.__name__}()" if isinstance(loss, type) else ", such as hm.PPOLoss()"
        raise TypeError(
            f"loss is {described(loss)}; expected an instance that is called as "
            f"loss(policy, batch){hint}"
        )
    try:
        inspect.signature(loss).bind("policy", "batch")
    except TypeError as error:
        raise TypeError(
            f"loss: {place(loss, '__call__')} takes {inspect.signature(loss)}; expected two "
            "arguments, (policy, batch)"
        ) from error


def check_modules(
    environment: Environment,
    policy: ActorCritic,
    loss: Any,
    precision: PrecisionPolicy,
    sizes: Sizes,
) -> None:
    """Raises unless the shapes of environment, policy and loss fit together.

    The tests check the package's own environments and losses, so they are not traced here: the
    step of HackMatrix takes seconds to trace.

    Args:
        environment: the environment to train in.
        policy: the policy to train.
        loss: the loss to minimize; `None` skips its check.
        precision: the precision of the policy.
        sizes: the sizes of an update.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: an array has the wrong shape or dtype.
    """
    if not is_ours(environment):
        check_shapes(environment)
    spec = environment.spec
    check_policy_shapes(policy, spec, precision=precision)
    if loss is not None and not is_ours(loss):
        _check_losses(loss, policy, spec, precision, (sizes.num_steps, sizes.at_once))


def _check_losses(
    loss: Any,
    policy: ActorCritic,
    spec: EnvSpec,
    precision: PrecisionPolicy,
    sizes: tuple[int, int],
) -> None:
    """Checks what the loss returns for a batch of shapes."""
    terms = getattr(loss, "auxiliary", None) is not None
    log_probs = bool(getattr(loss, "needs_old_log_probs", False))
    teacher = bool(getattr(loss, "needs_teacher", False))
    said = f"loss: {place(loss, '__call__')}"

    def evaluate(loss: Any, policy: ActorCritic) -> Any:
        # The batch exists only while tracing and takes no memory.
        batch = _zeros(policy, spec, *sizes, terms=terms, log_probs=log_probs, teacher=teacher)
        loss = at(loss, jnp.float32(0))
        return loss(evaluator_of(precision.cast_to_compute(policy)), batch)

    try:
        found = eqx.filter_eval_shape(evaluate, loss, policy)
    except Exception as error:
        raise ValueError(
            f"{said} fails on a batch of {sizes[0]} steps of {sizes[1]} environments: "
            f"{first_line(error)}"
        ) from error
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"{said} returns {described(found)}; expected two things: return loss, LossMetrics(...)"
        )
    value, metrics = found
    check_array(
        f"{said} returns as loss", value, "float32", (), hint="a mean over the batch, jnp.mean(...)"
    )
    if not isinstance(metrics, LossMetrics):
        raise TypeError(
            f"{said} returns {described(metrics)} in second place; expected LossMetrics: "
            "return loss, hackmatrix_rl.agent.LossMetrics(...)"
        )
    for path, leaf in jax.tree.leaves_with_path(metrics):
        if hasattr(leaf, "dtype"):  # a plain number serves as well
            name = jax.tree_util.keystr(path).lstrip(".")
            check_array(f"{said} returns LossMetrics whose {name} is", leaf, "float32", ())


def _zeros(
    policy: ActorCritic,
    spec: EnvSpec,
    num_steps: int,
    num_games: int,
    *,
    terms: bool,
    log_probs: bool,
    teacher: bool,
) -> Batch:
    """A minibatch of zeros."""

    def array(dtype: Any, *more: int) -> Array:
        return jnp.zeros((num_steps, num_games, *more), dtype)

    carry = policy.initial_carry()
    every_action = array(jnp.float32, int(spec.num_actions))
    auxiliary = AuxiliaryTargets(terms=array(jnp.float16, len(spec.terms)), terminated=array(bool))
    return Batch(
        observation=jax.tree.map(lambda leaf: array(leaf.dtype, *leaf.shape), spec.observation),
        mask=array(bool, int(spec.num_actions)),
        action=array(jnp.int32),
        log_prob=array(jnp.float32),
        value=array(jnp.float32),
        done=array(bool),
        initial_carry=jax.tree.map(lambda leaf: jnp.stack([leaf] * num_games), carry),
        advantage=array(jnp.float32),
        value_target=array(jnp.float32),
        auxiliary=auxiliary if terms else None,
        log_probs=every_action if log_probs else None,
        teacher_log_probs=every_action if teacher else None,
    )
