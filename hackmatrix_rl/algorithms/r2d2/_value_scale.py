"""The units in which Q-values are learned."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.errors import number


class SquareRootScale(ValueScale):
    """Nearly a square root: `sign(x) (sqrt(|x| + 1) - 1) + epsilon x`.

    Large returns change the network less, and nothing has to be known of their size.

    Source: Pohlen et al. 2018, "Observe and look further: achieving consistent performance on
    Atari".

    Attributes:
        epsilon: the part that stays linear, 0 or more. It keeps the inverse from growing fast.

    Raises:
        TypeError: `epsilon` is no number.
        ValueError: `epsilon` is negative or not finite.
    """

    epsilon: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        number("epsilon", self.epsilon)
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be 0 or more, not {self.epsilon}")

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """From units of reward to units of the network."""
        root = jnp.sign(value) * (jnp.sqrt(jnp.abs(value) + 1.0) - 1.0)
        return root + self.epsilon * value

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """From units of the network to units of reward."""
        shifted = jnp.abs(value) + 1.0 + self.epsilon
        # The usual form, (sqrt(1 + 4 epsilon shifted) - 1) / (2 epsilon), loses most digits in
        # float32: its difference is of two numbers that are nearly 1.
        root = 2.0 * shifted / (jnp.sqrt(1.0 + 4.0 * self.epsilon * shifted) + 1.0)
        return jnp.sign(value) * (root - 1.0) * (root + 1.0)

    def update(self, targets: Float32[Array, "*shape"]) -> "SquareRootScale":
        """The same scale: it has no statistics."""
        return self
