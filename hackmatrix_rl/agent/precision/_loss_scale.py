"""Loss scaling for float16."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32


class LossScale(eqx.Module):
    """The factor on a loss that keeps its float16 gradient within float16's small range.

    In float16, gradients below 6e-8 vanish, and gradients above 65504 become infinite. The loss is
    multiplied by the scale before it is differentiated. The gradient is divided by the scale in
    float32. The scale grows by `factor` after `interval` finite steps in a row. If a gradient is
    not finite, the trainer skips its step and the scale shrinks by `factor`. So the scale stays
    near the largest value that does not overflow.

    `scale` and `streak` are arrays, so a checkpoint holds them. The other fields are static and
    come from the config.

    Source: Micikevicius et al. 2018, "Mixed precision training", with the constants of NVIDIA
    Apex.

    Attributes:
        scale: the factor, a power of `factor`.
        streak: number of finite steps in a row since the scale last changed.
        interval: number of finite steps in a row after which the scale grows.
        factor: the factor by which the scale grows and shrinks. A power of 2 avoids rounding.
        floor: the scale does not shrink below it.
        ceiling: the scale does not grow above it.
    """

    scale: Float32[Array, ""]
    streak: Int32[Array, ""]
    interval: int = eqx.field(static=True)
    factor: float = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    ceiling: float = eqx.field(static=True)

    def __init__(
        self,
        initial: float = 2.0**15,
        *,
        interval: int = 2000,
        factor: float = 2.0,
        floor: float = 1.0,
        ceiling: float = 2.0**24,
    ) -> None:
        """Starts at the initial scale.

        Args:
            initial: the first scale.
            interval: number of finite steps in a row after which the scale grows.
            factor: the factor by which the scale grows and shrinks.
            floor: smallest scale.
            ceiling: largest scale.

        Raises:
            ValueError: an argument is out of range.
        """
        if interval < 1:
            raise ValueError(f"interval must be at least 1, not {interval}")
        if factor <= 1:
            raise ValueError(f"factor must be greater than 1, not {factor}")
        if not 0 < floor <= initial <= ceiling:
            raise ValueError(
                "floor must be positive, and initial between floor and ceiling, not "
                f"{floor}, {initial} and {ceiling}"
            )
        self.scale = jnp.asarray(initial, jnp.float32)
        self.streak = jnp.zeros((), jnp.int32)
        self.interval = interval
        self.factor = factor
        self.floor = floor
        self.ceiling = ceiling

    def adjust(self, finite: Bool[Array, ""]) -> "LossScale":
        """The scale after a step.

        Args:
            finite: whether the gradient of the step was finite.
        """
        streak = jnp.where(finite, self.streak + 1, 0)
        grows = streak >= self.interval
        larger = jnp.minimum(self.scale * self.factor, self.ceiling)
        smaller = jnp.maximum(self.scale / self.factor, self.floor)
        scale = jnp.where(finite, jnp.where(grows, larger, self.scale), smaller)
        adjusted: LossScale = eqx.tree_at(
            lambda s: (s.scale, s.streak), self, (scale, jnp.where(grows, 0, streak))
        )
        return adjusted
