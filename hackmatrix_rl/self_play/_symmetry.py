"""Other views of a position in which the same moves are as good."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key, PyTree

from hackmatrix_rl.clique import edge_numbers, edges
from hackmatrix_rl.env import CliqueObservation

Seen = tuple[PyTree[Array], Bool[Array, " num_actions"], Float32[Array, " num_actions"]]
"""An observation, the legal moves, and the weight of each move."""


class Symmetry(eqx.Module):
    """Changes a position and the weights of its moves, so that the weights stay right."""

    @abstractmethod
    def __call__(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        weights: Float32[Array, " num_actions"],
        *,
        key: Key[Array, ""],
    ) -> Seen:
        """The changed observation, legal moves and weights.

        Args:
            observation: one observation.
            mask: the legal moves.
            weights: of the moves.
            key: decides the change.
        """


class VertexPermutations(Symmetry):
    """Gives the vertices of a clique game other numbers, in a random order.

    Attributes:
        vertices: number of vertices.
    """

    vertices: int = eqx.field(static=True)

    def __call__(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        weights: Float32[Array, " num_actions"],
        *,
        key: Key[Array, ""],
    ) -> Seen:
        """The position on renumbered vertices: the edges change places, and the moves with them.

        Raises:
            TypeError: the observation is not that of a clique game.
        """
        if not isinstance(observation, CliqueObservation):
            raise TypeError(
                f"observation is a {type(observation).__name__}; VertexPermutations changes only "
                "a CliqueObservation, as CliqueGame makes it"
            )
        order = jax.random.permutation(key, self.vertices)
        ends = order[edges(self.vertices)]
        source = jnp.asarray(edge_numbers(self.vertices))[ends[:, 0], ends[:, 1]]
        seen = CliqueObservation(
            own=observation.own[source],
            other=observation.other[source],
            first=observation.first,
        )
        return seen, mask[source], weights[source]
