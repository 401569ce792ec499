"""A counter beyond 32 bits."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, UInt32


class Counter(eqx.Module):
    """A count below 2^64 in two words, because JAX has no 64-bit integers by default.

    Attributes:
        high: multiples of 2^32.
        low: the rest.
    """

    high: UInt32[Array, ""]
    low: UInt32[Array, ""]

    @classmethod
    def of(cls, count: int) -> "Counter":
        """A counter with the value `count`."""
        return cls(high=jnp.uint32(count >> 32), low=jnp.uint32(count & 0xFFFFFFFF))

    def add(self, more: int | Int32[Array, ""]) -> "Counter":
        """The counter plus `more`, which is at least 0 and less than 2^32."""
        low = self.low + jnp.asarray(more, jnp.uint32)
        carried = (low < self.low).astype(jnp.uint32)
        return type(self)(high=self.high + carried, low=low)

    def as_float(self) -> Float32[Array, ""]:
        """The count, rounded to float32."""
        return self.high.astype(jnp.float32) * float(2**32) + self.low.astype(jnp.float32)

    def __int__(self) -> int:
        """The exact count, on the host."""
        return (int(self.high) << 32) + int(self.low)
