"""Other views of a position, in which the same actions are as good."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, PyTree, Shaped


class Changed(eqx.Module):
    """A position in another view, in which its actions have other numbers.

    Attributes:
        observation: what is seen.
        was: by action, the number that it had before.
    """

    observation: PyTree[Array]
    was: Int32[Array, " num_actions"]

    def of_each(self, before: Shaped[Array, " num_actions"]) -> Shaped[Array, " num_actions"]:
        """Values of each action, such as the mask, in the order of the new numbers."""
        return before[self.was]

    def action(self, before: Int32[Array, ""]) -> Int32[Array, ""]:
        """The new number of an action."""
        return jnp.argmax(self.was == before).astype(jnp.int32)


class Symmetry(eqx.Module):
    """Transforms a position without changing the values of its actions.

    Learning from the changed positions, too, multiplies what there is to learn from.
    """

    @abstractmethod
    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
        """The position in another view.

        Args:
            observation: one observation.
            key: decides the change.
        """
