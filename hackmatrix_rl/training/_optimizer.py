"""The default optimizer, and checks of an optimizer and a learning rate."""

import inspect
import numbers
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hackmatrix_rl.agent import Constant, Schedule, ends_of
from hackmatrix_rl.errors import check_array, described, finite, place


def adam(max_grad_norm: float = 0.5) -> optax.GradientTransformation:
    """Adam with learning rate 1 on gradients clipped to a Euclidean norm over all parameters.

    An algorithm multiplies the step by its learning rate, a `Schedule`.

    Source: Kingma and Ba 2015; the epsilon is that of OpenAI's PPO.

    Raises:
        ValueError: `max_grad_norm` is not positive.
    """
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm), optax.scale_by_adam(eps=1e-5), optax.scale(-1.0)
    )


def optimizer_of(
    optimizer: Any, learning_rate: Any
) -> tuple[optax.GradientTransformation, Schedule]:
    """Optimizer and learning rate; the defaults are those of `PPO`.

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
