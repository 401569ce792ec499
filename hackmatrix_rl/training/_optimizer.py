"""Optimizers and learning rates."""

import inspect
import math
import numbers
from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import optax.contrib
from jaxtyping import Array, Float32, PyTree

from hackmatrix_rl.agent import Constant as Constant
from hackmatrix_rl.agent import Cosine as Cosine
from hackmatrix_rl.agent import FromFunction, ends_of
from hackmatrix_rl.agent import Linear as Linear
from hackmatrix_rl.agent import Schedule as Schedule
from hackmatrix_rl.agent.precision import path_name
from hackmatrix_rl.system.errors import check_array, described, finite, place
from hackmatrix_rl.training._optimizer_names import OPTIMIZERS, optimizer_settings


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
    return named_optimizer("adam", max_grad_norm)


def named_optimizer(name: str, max_grad_norm: float = 0.5, **settings: float | None) -> UnitRate:
    """An optimizer with learning rate 1, on gradients clipped by their global norm.

        hm.PPO(..., optimizer=named_optimizer("lion", weight_decay=0.01), learning_rate=1e-4)

    Weight decay is decoupled: the learning rate scales it, the gradient does not.

    Args:
        name: one of `OPTIMIZERS`.
        max_grad_norm: gradients with a larger norm are scaled down to it.
        settings: settings of the optimizer, `None` for its default (see `OPTIMIZERS`).

    Raises:
        ValueError: there is no such optimizer, it has no such setting, or one is out of range.
    """
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    known = optimizer_settings(name, **settings)
    for setting, value in known.items():
        if finite(setting, value) < 0:
            raise ValueError(f"{setting} must be 0 or more, not {value}")
        if setting in ("beta1", "beta2", "momentum") and value >= 1:
            raise ValueError(f"{setting} must be below 1, not {value}")
    return _named(name, float(max_grad_norm), tuple(known.items()))


@cache
def _named(name: str, max_grad_norm: float, settings: tuple[tuple[str, float], ...]) -> UnitRate:
    """Cached: algorithms with the same optimizer functions compare as equal."""
    own = dict(settings)
    decay = own.pop("weight_decay", None)
    links = [optax.clip_by_global_norm(max_grad_norm), _SCALES[name](**own)]
    if decay is not None:
        links.append(optax.add_decayed_weights(decay))
    return unit_rate(optax.chain(*links, optax.scale(-1.0)))


def scale_by_adam_atan2(beta1: float, beta2: float) -> optax.GradientTransformation:
    """Adam with `atan2` in place of the division, so it needs no epsilon.

    The update is `4 / pi * atan2(m, sqrt(v))`, with Adam's bias-corrected averages. It is invariant
    to the scale of the gradients.

    Source: Everett et al. 2024, "Scaling exponents across parameterizations and optimizers".
    """

    def init(parameters: PyTree) -> optax.ScaleByAdamState:
        first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
        return optax.ScaleByAdamState(count=jnp.zeros((), jnp.int32), mu=first, nu=second)

    def update(gradient: PyTree, state: Any, parameters: PyTree = None) -> tuple[PyTree, Any]:
        del parameters
        count = optax.safe_increment(state.count)
        first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state.mu, gradient)
        second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g**2, state.nu, gradient)
        steps = count.astype(jnp.float32)

        def change(m: jax.Array, v: jax.Array) -> jax.Array:
            corrected = jnp.sqrt(v / (1 - beta2**steps))
            # Makes the update 1 where both averages are equal, as Adam's is.
            return 4 / math.pi * jnp.arctan2(m / (1 - beta1**steps), corrected)

        changes = jax.tree.map(change, first, second)
        return changes, optax.ScaleByAdamState(count=count, mu=first, nu=second)

    return optax.GradientTransformation(init, update)


def _scale_by_muon(
    momentum: float, beta1: float, beta2: float, eps: float
) -> optax.GradientTransformation:
    """Muon for matrices, and Adam with Nesterov momentum for the rest.

    The change of a matrix has a root mean square of about 0.2, as Adam's has, so that both train
    with one learning rate.

    Source: Jordan et al. 2024, "Muon"; the scale is from Liu et al. 2025, "Muon is scalable for LLM
    training".
    """
    # optax multiplies by the rate with a minus, and `_named` by -1 later.
    muon = optax.contrib.muon(-1.0, beta=momentum, eps=eps, adam_b1=beta1, adam_b2=beta2)

    def rescale(change: jax.Array) -> jax.Array:
        if change.ndim != 2:
            return change
        # An orthogonal matrix, which optax multiplied by sqrt(max(1, columns / rows)), has a root
        # mean square of 1 / sqrt(rows).
        return 0.2 * math.sqrt(change.shape[0]) * change

    return optax.chain(muon, optax.stateless_with_tree_map(lambda change, _: rescale(change)))


_SCALES: dict[str, Callable[..., optax.GradientTransformation]] = {
    "adam": lambda beta1, beta2, eps: optax.scale_by_adam(beta1, beta2, eps),
    "adamw": lambda beta1, beta2, eps: optax.scale_by_adam(beta1, beta2, eps),
    "adam-atan2": scale_by_adam_atan2,
    "nadam": lambda beta1, beta2, eps: optax.scale_by_adam(beta1, beta2, eps, nesterov=True),
    "radam": lambda beta1, beta2, eps: optax.scale_by_radam(beta1, beta2, eps),
    "adabelief": lambda beta1, beta2, eps: optax.scale_by_belief(beta1, beta2, eps),
    "lion": lambda beta1, beta2: optax.scale_by_lion(beta1, beta2),
    "muon": _scale_by_muon,
    "rmsprop": lambda beta2, eps: optax.scale_by_rms(beta2, eps),
    "sgd": lambda momentum: optax.trace(momentum),
}
"""The update of each of `OPTIMIZERS` before weight decay and the learning rate."""


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
    if isinstance(given, str) and given in OPTIMIZERS:
        raise TypeError(f"{said}: optimizer=hackmatrix_rl.training.named_optimizer({given!r})")
    if inspect.isroutine(given):
        raise TypeError(f"{said}: call the function, optimizer=optax.{given.__name__}(3e-4), say")
    raise TypeError(f"{said}: optimizer=optax.adam(3e-4)")
