"""Numbers that change over training, as float32 functions of environment steps."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32


class Schedule(eqx.Module):
    """A number as a function of environment steps.

    Unlike gradient steps, environment steps mean the same for any number of epochs and
    minibatches, and after a resume with another batch.
    """

    @abstractmethod
    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        """The number after `env_steps` steps over all environments."""


class Constant(Schedule):
    """A constant number.

    Attributes:
        value: the number.
    """

    value: float = eqx.field(static=True)

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        """The number."""
        return jnp.full((), self.value, jnp.float32)


class Linear(Schedule):
    """A line from one number to another, constant after its end.

    Attributes:
        initial: the number at the start.
        final: the number from `over` steps on.
        over: length of the line in environment steps.
    """

    initial: float = eqx.field(static=True)
    final: float = eqx.field(static=True)
    over: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.over < 1:
            raise ValueError(f"a linear schedule must go over at least 1 step, not {self.over}")

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        """The number after `env_steps` steps."""
        part = jnp.minimum(env_steps / float(self.over), 1.0)
        return self.initial + (self.final - self.initial) * part
