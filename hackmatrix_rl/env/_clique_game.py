"""The clique game as a `SingleGame`, and its symmetries."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env._single_game import Played, SingleGame
from hackmatrix_rl.env._symmetries import Changed, Symmetry
from hackmatrix_rl.games import clique


class CliqueObservation(eqx.Module):
    """A position from the view of the player to move, so that one network plays both players."""

    own: Bool[Array, "*batch num_edges"]  #: The edges of the player to move.
    other: Bool[Array, "*batch num_edges"]  #: The edges of the other player.
    first: Bool[Array, "*batch"]  #: Whether the first player is to move.


@final
class CliqueGame(SingleGame[clique.State]):
    """The clique game between two players who move alternately.

    The reward is for the player who moved: 1 if the move wins, -1 if it loses, else 0. An illegal
    move ends the episode with a reward of 0.

    Attributes:
        config: sizes and variant of the game.
    """

    config: clique.CliqueConfig = eqx.field(static=True)

    @property
    def num_actions(self) -> int:
        """Number of edges."""
        return self.config.num_edges

    def start(self, *, key: Key[Array, ""]) -> clique.State:
        """The empty board, for every key."""
        return clique.new_game(self.config)

    def observe(self, state: clique.State) -> CliqueObservation:
        """The position from the view of the player to move."""
        coloured = clique.colours(self.config, state)
        player = clique.mover(state)
        return CliqueObservation(
            own=coloured[player], other=coloured[1 - player], first=player == clique.FIRST
        )

    def legal(self, state: clique.State) -> Bool[Array, " num_actions"]:
        """The uncoloured edges; none after the end."""
        return clique.legal_actions(self.config, state)

    def play(self, state: clique.State, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Colours an edge; the key is unused."""
        after, outcome = clique.play(self.config, state, action)
        return Played(after, outcome.reward.astype(jnp.float32), outcome.over | ~outcome.legal)


@final
class VertexPermutations(Symmetry):
    """Renumbers the vertices of a clique game by a random permutation."""

    vertices: int = eqx.field(static=True)  #: Number of vertices.

    def __call__(self, observation: PyTree[Array], *, key: Key[Array, ""]) -> Changed:
        """The position with permuted vertices, and so with permuted edges and actions.

        Raises:
            TypeError: the observation is not a `CliqueObservation`.
        """
        if not isinstance(observation, CliqueObservation):
            raise TypeError(
                f"observation is a {type(observation).__name__}; VertexPermutations changes only "
                "a CliqueObservation, as CliqueGame makes it"
            )
        order = jax.random.permutation(key, self.vertices)
        ends = order[clique.edges(self.vertices)]
        was = jnp.asarray(clique.edge_numbers(self.vertices))[ends[:, 0], ends[:, 1]]
        seen = CliqueObservation(
            own=observation.own[was], other=observation.other[was], first=observation.first
        )
        return Changed(seen, was)
