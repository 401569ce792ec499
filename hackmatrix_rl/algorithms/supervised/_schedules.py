"""When a row halts, and the number of cycles of the network over a training."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.agent.networks import Cycles
from hackmatrix_rl.algorithms.supervised._names import FIRST_HIGH, FIRST_LOW
from hackmatrix_rl.system.errors import ArgumentError, whole


class Halting(eqx.Module):
    """Halts a row after a maximum number of steps, or earlier by its halting logit.

    Attributes:
        most: supervision steps after which every row halts.
        learned: whether a row may halt earlier, if its halting logit is above 0.

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".

    Raises:
        TypeError: `most` is not a whole number.
        ValueError: it is less than 1.
    """

    most: int = eqx.field(static=True, default=16)
    learned: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        whole("supervision_steps", self.most)

    def __call__(
        self,
        steps: Int32[Array, " rows"],
        halt: Float32[Array, " rows"],
        exploration: Float32[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> Bool[Array, " rows"]:
        """Whether each row halts.

        Args:
            steps: supervision steps on the example, including the current one.
            halt: the halting logit.
            exploration: fraction of rows that need a random minimum of 2 to `most` steps.
            key: source of randomness for these rows and minimums.
        """
        last = steps >= self.most
        if not self.learned:
            return last
        explores_key, least_key = jax.random.split(key)
        explores = jax.random.bernoulli(explores_key, exploration, steps.shape)
        least = jax.random.randint(least_key, steps.shape, 2, max(self.most, 2) + 1, jnp.int32)
        return last | ((halt > 0) & (~explores | (steps >= least)))


class Curriculum(eqx.Module):
    """Increases the recursion linearly from 1 cycle of `z_H` with 2 of `z_L`, rounded down.

    Attributes:
        high: final number of cycles of `z_H`.
        low: final number of cycles of `z_L`.
        over: number of updates until the final numbers.

    Raises:
        TypeError: an argument is not a whole number.
        ValueError: a final number is below its initial one, or `over` is less than 1.
    """

    high: int = eqx.field(static=True)
    low: int = eqx.field(static=True)
    over: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        whole("over", self.over)
        for name, last, first in (
            ("high_cycles", self.high, FIRST_HIGH),
            ("low_cycles", self.low, FIRST_LOW),
        ):
            if whole(name, last) < first:
                raise ArgumentError(
                    f"{{{name}}} ends below the {first} with which a curriculum begins; use "
                    f"{{{name}:={first}}} or more, or no curriculum",
                    **{name: last},
                )

    def __call__(self, update: Int32[Array, ""]) -> Cycles:
        """The numbers of cycles in an update."""
        done = jnp.minimum(update, self.over)
        high = FIRST_HIGH + done * (self.high - FIRST_HIGH) // self.over
        low = FIRST_LOW + done * (self.low - FIRST_LOW) // self.over
        return Cycles(high.astype(jnp.int32), low.astype(jnp.int32))
