"""Optimizers and learning rates."""

import inspect
import numbers
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, PyTree

from hackmatrix_rl.agent import Constant as Constant
from hackmatrix_rl.agent import Cosine as Cosine
from hackmatrix_rl.agent import FromFunction, ends_of
from hackmatrix_rl.agent import Linear as Linear
from hackmatrix_rl.agent import Schedule as Schedule
from hackmatrix_rl.agent.precision import path_name
from hackmatrix_rl.system.errors import check_array, described, finite, place


class UnitRate(optax.GradientTransformation):  # type: ignore[misc]  # optax has no types
    """An optimizer with learning rate 1, whose updates an algorithm scales by its learning rate."""

    __slots__ = ()


def unit_rate(optimizer: optax.GradientTransformation) -> UnitRate:
    """Marks an optimizer with learning rate 1, for use with a `learning_rate`.

        hm.PPO(..., optimizer=unit_rate(optax.lion(1.0)), learning_rate=Linear(1e-4, 0.0, 10**6))

    Raises:
        TypeError: it is not an optimizer.
    """
    check_optimizer(optimizer)
    return UnitRate(optimizer.init, optimizer.update)


def adam(max_grad_norm: float = 0.5) -> UnitRate:
    """Adam with learning rate 1, on gradients clipped by their global norm.

    An algorithm scales the update by its learning rate, a `Schedule`.

    Source: Kingma and Ba 2015; the epsilon is from OpenAI's PPO.

    Raises:
        ValueError: `max_grad_norm` is not positive.
    """
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    return _adam(float(max_grad_norm))


@cache
def _adam(max_grad_norm: float) -> UnitRate:
    """`adam`, cached: algorithms with the same optimizer functions compare as equal."""
    clip = optax.clip_by_global_norm(max_grad_norm)
    return unit_rate(optax.chain(clip, optax.scale_by_adam(eps=1e-5), optax.scale(-1.0)))


def optimizer_of(
    optimizer: Any, learning_rate: Any
) -> tuple[optax.GradientTransformation, Schedule]:
    """The optimizer and the learning rate as a schedule; by default `PPO`'s.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the learning rate is negative or not finite, or both arguments have one.
    """
    optimizer = adam() if optimizer is None else optimizer
    check_optimizer(optimizer)
    if isinstance(optimizer, UnitRate):
        return optimizer, _schedule(3e-4 if learning_rate is None else learning_rate)
    if learning_rate is None:
        return optimizer, Constant(1.0)
    raise ValueError(
        "optimizer and learning_rate are both given, and the update would be multiplied by both "
        "rates; leave learning_rate out, or mark an optimizer whose own rate is 1: "
        "optimizer=hackmatrix_rl.training.unit_rate(optax.adam(1.0))"
    )


def reported_rate(
    optimizer: optax.GradientTransformation, state: PyTree[Array], rate: Float32[Array, ""]
) -> dict[str, Float32[Array, ""]]:
    """The learning rate of the last step as a metric, `learning_rate`.

    Args:
        optimizer: of the step.
        state: its state after the step.
        rate: factor on its changes.

    Returns:
        Empty where only the optimizer knows its rate: its state does not hold one rate, as with
        `optax.inject_hyperparams`.
    """
    if isinstance(optimizer, UnitRate):
        return {"learning_rate": rate}
    own = [
        leaf
        for path, leaf in jax.tree.leaves_with_path(state)
        if path_name(path).endswith(".hyperparams['learning_rate']")
    ]
    return {"learning_rate": rate * own[0].astype(jnp.float32)} if len(own) == 1 else {}


def _schedule(given: Any) -> Schedule:
    """A schedule from a number, a schedule, or a schedule of optax."""
    if isinstance(given, type):
        raise TypeError(
            f"learning_rate is {described(given)}; expected a number, a schedule "
            "(learning_rate=Linear(3e-4, 0.0, over=total_timesteps)) or a schedule of optax"
        )
    if not isinstance(given, Schedule):
        given = FromFunction(given) if callable(given) else Constant(finite("learning_rate", given))
    for end in ends_of(given):
        if finite("learning_rate", end) < 0:
            raise ValueError(f"learning_rate is {end:g}; expected 0 or more: use {-end:g}")
    function = given.function if isinstance(given, FromFunction) else given
    said = f"{place(function, '__call__')}, a schedule, returns"
    rate = eqx.filter_eval_shape(function, jax.ShapeDtypeStruct((), jnp.float32))
    if function is given or not isinstance(rate, numbers.Real):  # optax's may return 0.001
        check_array(said, rate, "float32", ())
    return given


def check_optimizer(given: Any) -> None:
    """Raises a TypeError unless the argument has `init` and `update`, like optimizers of optax."""
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
