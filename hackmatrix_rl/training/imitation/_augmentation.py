"""Other views of a labelled position, in which the teacher would do the same."""

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env import NUM_SYMMETRIES, turn_action, turn_mask, turn_observation


class Augmentation(eqx.Module):
    """Changes a position and its label so that the label stays right."""

    @abstractmethod
    def __call__(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        action: Int32[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> tuple[PyTree[Array], Bool[Array, " num_actions"], Int32[Array, ""]]:
        """The changed observation, mask and label.

        Args:
            observation: one observation.
            mask: the legal actions.
            action: the label.
            key: decides the change.
        """


class BoardSymmetries(Augmentation):
    """Turns and mirrors the board of HackMatrix: one of the eight symmetries at random."""

    def __call__(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        action: Int32[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> tuple[PyTree[Array], Bool[Array, " num_actions"], Int32[Array, ""]]:
        """The turned observation, mask and label.

        Raises:
            TypeError: the observation has no board that can be turned.
        """
        symmetry = jax.random.randint(key, (), 0, NUM_SYMMETRIES)
        return (
            turn_observation(observation, symmetry),
            turn_mask(mask, symmetry),
            turn_action(action, symmetry),
        )
