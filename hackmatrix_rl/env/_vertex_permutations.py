"""The symmetries of the clique game: its vertices have no order."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from hackmatrix_rl.clique import edge_numbers, edges
from hackmatrix_rl.env._clique_game import CliqueObservation
from hackmatrix_rl.env._symmetry import Changed, Symmetry


@final
class VertexPermutations(Symmetry):
    """Gives the vertices of a clique game other numbers, in a random order.

    Attributes:
        vertices: number of vertices.
    """

    vertices: int = eqx.field(static=True)

    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
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
        was = jnp.asarray(edge_numbers(self.vertices))[ends[:, 0], ends[:, 1]]
        seen = CliqueObservation(
            own=observation.own[was], other=observation.other[was], first=observation.first
        )
        return Changed(seen, was)
