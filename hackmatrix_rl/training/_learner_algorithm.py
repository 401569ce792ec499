"""What algorithms with one learner share: its state, its place on a mesh, the optimizer."""

import inspect
import numbers
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent import Constant, Schedule, ValueScale, ends_of
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import split_trainable
from hackmatrix_rl.errors import check_array, described, finite, place
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, Counter
from hackmatrix_rl.training._report import Dispatch, Metrics
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    each_array,
    fsdp_shardings,
    on_host,
    replicated_shardings,
)

VALUE_HEAD = ".heads.value"
"""Where the names of the value head's parameters begin."""

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound="TrainState")


class Learner(eqx.Module):
    """The policy, and the state that changes with it.

    Attributes:
        policy: the network, its parameters in float32.
        optimizer_state: of the optimizer, for the policy's parameters.
        value_scale: units of the network's value.
        scaling: state of the loss scaling; `()` without one.
        skipped: gradient steps that were not taken because a gradient was not finite.
        average: exponential moving averages of the policy's parameters, in its structure; `None`
            if the gradient step keeps none.
    """

    policy: ActorCritic
    optimizer_state: PyTree[Array]
    value_scale: ValueScale
    scaling: PyTree[Array]
    skipped: Int32[Array, ""]
    average: PyTree[Array] | None = None

    @property
    def played(self) -> ActorCritic:
        """The policy to evaluate and to play: with the averages in place of the parameters."""
        if self.average is None:
            return self.policy
        _, rest = split_trainable(self.policy)
        averaged: ActorCritic = eqx.combine(self.average, rest)
        return averaged


def learner_shardings(
    mesh: Mesh, learner: Learner, *, offload: bool = False
) -> PyTree[NamedSharding]:
    """The shardings of a learner between two gradient steps; `None` for what is no array.

    `offload` puts the optimizer's state into the hosts' memory.
    """
    shardings = fsdp_shardings(mesh, learner)
    if not offload:
        return shardings
    return eqx.tree_at(
        lambda learner: learner.optimizer_state,
        shardings,
        on_host(shardings.optimizer_state, learner.optimizer_state),
    )


def is_value_head(name: str) -> bool:
    """Whether the parameter with this name (see `path_name`) belongs only to the value head."""
    return name.startswith(VALUE_HEAD)


def state_shardings(
    mesh: Mesh, state: PyTree, *, networks: tuple[str, ...] = (), offload: bool = False
) -> PyTree[NamedSharding]:
    """Where the arrays of an algorithm's state (or their shapes) lie between two updates.

    The learner is cut along `fsdp`, and so are the fields named by `networks`; the arrays of
    `actors` along their environments. Everything else lies whole on each device. `offload` puts the
    optimizer's state into the hosts' memory.
    """
    by_environment, whole = (NamedSharding(mesh, spec) for spec in (BY_ENVIRONMENT, REPLICATED))
    cut = {
        "learner": learner_shardings(mesh, state.learner, offload=offload),
        "actors": each_array(lambda leaf: by_environment if leaf.ndim else whole, state.actors),
        **{name: fsdp_shardings(mesh, getattr(state, name)) for name in networks},
    }
    return eqx.tree_at(
        lambda state: [getattr(state, name) for name in cut],
        replicated_shardings(mesh, state),
        list(cut.values()),
        is_leaf=lambda node: node is None,
    )


def scan_and_sum(body: Callable[[C, X], tuple[C, Y]], initial: C, inputs: X) -> tuple[C, Y]:
    """`jax.lax.scan` with a carry that may hold more than arrays, and the sum of the outputs.

    Only the arrays of the carry change.
    """
    arrays, rest = eqx.partition(initial, eqx.is_array)

    def array_body(arrays: Any, inputs: X) -> tuple[Any, Y]:
        carry, output = body(eqx.combine(arrays, rest), inputs)
        return eqx.filter(carry, eqx.is_array), output

    arrays, outputs = jax.lax.scan(array_body, arrays, inputs)
    carry: C = eqx.combine(arrays, rest)
    return carry, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), outputs)


class TrainState(AlgorithmState):
    """The training state of an algorithm with one learner. Subclasses may add fields.

    Attributes:
        learner: the policy and everything that changes with it.
        actors: the environments between two updates, and what is learned from later.
        key: constant; every draw of the learner is a function of it and of `update`.
    """

    learner: Learner
    actors: Any
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter

    @classmethod
    def first(cls: type[S], key: Key[Array, ""], learner: Learner, actors: Any, **own: Any) -> S:
        """The state before the first update, with a subclass's own fields."""
        zero, none = jnp.zeros((), jnp.int32), Counter.of(0)
        return cls(learner=learner, actors=actors, key=key, update=zero, env_steps=none, **own)


class LearnerAlgorithm(Algorithm[S]):
    """An algorithm that takes its policy and value scale from its learner."""

    @property
    def resettable(self) -> tuple[str, ...]:
        """The actors: a resume reinitializes them if their number or sizes change."""
        return ("actors",)

    def policy(self, state: S) -> ActorCritic:
        """The network of the learner, with averaged parameters if it keeps averages."""
        return state.learner.played

    def value_scale_of(self, state: S) -> ValueScale | None:
        """The scale of the learner."""
        return state.learner.value_scale

    def metrics(self, report: Any, dispatch: Dispatch) -> Metrics:
        """Means over the updates, and over the episodes that ended."""
        return report.metrics(dispatch, batch=self.steps_per_update)

    def advance(self, state: S, learner: Learner, actors: Any, **changes: Any) -> S:
        """The state after an update that made this learner and these actors."""
        return replace(
            state,
            learner=learner,
            actors=actors,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
            **changes,
        )


class UnitRate(optax.GradientTransformation):  # type: ignore[misc]  # optax has no types
    """An optimizer with learning rate 1, whose changes an algorithm multiplies by its own rate."""

    __slots__ = ()


def unit_rate(optimizer: optax.GradientTransformation) -> UnitRate:
    """Marks an optimizer with learning rate 1, so that it goes with a `learning_rate`.

        hm.PPO(..., optimizer=unit_rate(optax.lion(1.0)), learning_rate=Linear(1e-4, 0.0, 10**6))

    Raises:
        TypeError: it is no optimizer.
    """
    check_optimizer(optimizer)
    return UnitRate(optimizer.init, optimizer.update)


def adam(max_grad_norm: float = 0.5) -> UnitRate:
    """Adam with learning rate 1 on gradients clipped to a Euclidean norm over all parameters.

    An algorithm multiplies the step by its learning rate, a `Schedule`.

    Source: Kingma and Ba 2015; the epsilon is from OpenAI's PPO.

    Raises:
        ValueError: `max_grad_norm` is not positive.
    """
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    return _adam(float(max_grad_norm))


@cache
def _adam(max_grad_norm: float) -> UnitRate:
    """`adam`; the same functions in each call, so that algorithms with it can be compared."""
    clip = optax.clip_by_global_norm(max_grad_norm)
    return unit_rate(optax.chain(clip, optax.scale_by_adam(eps=1e-5), optax.scale(-1.0)))


def optimizer_of(
    optimizer: Any, learning_rate: Any
) -> tuple[optax.GradientTransformation, Schedule]:
    """Optimizer and learning rate; the defaults are `PPO`'s.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a learning rate is negative or not finite, or the optimizer has one, too.
    """
    optimizer = adam() if optimizer is None else optimizer
    check_optimizer(optimizer)
    if isinstance(optimizer, UnitRate):
        return optimizer, _schedule(3e-4 if learning_rate is None else learning_rate)
    if learning_rate is None:
        return optimizer, Constant(1.0)
    raise ValueError(
        "optimizer and learning_rate are both given, and the step would be multiplied by both "
        "rates; leave learning_rate out, or mark an optimizer whose own rate is 1: "
        "optimizer=hackmatrix_rl.training.unit_rate(optax.adam(1.0))"
    )


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
    return given


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
