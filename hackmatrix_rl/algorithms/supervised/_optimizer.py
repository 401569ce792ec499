"""Optimizers of supervised learning, with learning rate 1."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from hackmatrix_rl.algorithms.supervised._names import OPTIMIZERS
from hackmatrix_rl.system.errors import finite
from hackmatrix_rl.training import UnitRate, unit_rate

FIRST_DECAY, SECOND_DECAY = 0.9, 0.95
SCALE = 4 / math.pi
"""Makes the update 1 where both averages are equal, as Adam's is."""
_SCALE_BY_ADAM = partial(optax.scale_by_adam, FIRST_DECAY, SECOND_DECAY)


def scale_by_adam_atan2(
    b1: float = FIRST_DECAY, b2: float = SECOND_DECAY
) -> optax.GradientTransformation:
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
        first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, gradient)
        second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, state.nu, gradient)
        steps = count.astype(jnp.float32)

        def change(m: jax.Array, v: jax.Array) -> jax.Array:
            corrected = jnp.sqrt(v / (1 - b2**steps))
            return SCALE * jnp.arctan2(m / (1 - b1**steps), corrected)

        changes = jax.tree.map(change, first, second)
        return changes, optax.ScaleByAdamState(count=count, mu=first, nu=second)

    return optax.GradientTransformation(init, update)


def adam_atan2(weight_decay: float = 0.1, max_grad_norm: float = 1.0) -> UnitRate:
    """AdamATan2 with decoupled weight decay and learning rate 1, on clipped gradients.

    Raises:
        ValueError: a number is out of range.
    """
    return _decayed(scale_by_adam_atan2, weight_decay, max_grad_norm)


def adamw(weight_decay: float = 0.1, max_grad_norm: float = 1.0) -> UnitRate:
    """AdamW with learning rate 1, on clipped gradients.

    Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
    """
    return _decayed(_SCALE_BY_ADAM, weight_decay, max_grad_norm)


def optimizer_named(name: str, weight_decay: float, max_grad_norm: float) -> UnitRate:
    """The optimizer of one of `OPTIMIZERS`."""
    return dict(zip(OPTIMIZERS, (adamw, adam_atan2), strict=True))[name](
        weight_decay, max_grad_norm
    )


def _decayed(
    scale: Callable[[], optax.GradientTransformation], weight_decay: float, max_grad_norm: float
) -> UnitRate:
    """Clips the gradient by its global norm, scales it, and adds decoupled weight decay."""
    if finite("weight_decay", weight_decay) < 0:
        raise ValueError(f"weight_decay must be 0 or more, not {weight_decay}")
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    return _chain(scale, float(weight_decay), float(max_grad_norm))


@cache
def _chain(
    scale: Callable[[], optax.GradientTransformation], weight_decay: float, max_grad_norm: float
) -> UnitRate:
    """Cached, because the members of a population must have the same optimizer functions."""
    chain = optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        scale(),
        optax.add_decayed_weights(weight_decay),
        optax.scale(-1.0),
    )
    return unit_rate(chain)
