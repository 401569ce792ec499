"""A puzzle as a game, in which an action writes one token."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key

from hackmatrix_rl.env import Discrete, EnvSpec, Played, SingleGame, TokenFeatures
from hackmatrix_rl.games.puzzles import Examples, ExampleStream


class Answering(eqx.Module):
    """An example, and a mask of the cells that are not answered yet."""

    example: Examples
    left: Bool[Array, " cells"]


@final
class Puzzle(SingleGame[Answering]):
    """A random example of a stream as a game. Each action answers one cell, permanently.

    The observation is the unanswered puzzle. An action is `cell * vocabulary + token`. Its reward
    is `1 / cells` if the token is correct, so the return is the fraction of correct cells. A second
    answer to a cell has no effect.
    """

    stream: ExampleStream

    @property
    def cells(self) -> int:
        """Number of cells of a board."""
        return self.stream.rows * self.stream.cols

    @property
    def num_actions(self) -> int:
        return self.cells * self.stream.vocabulary

    @property
    def encode(self) -> TokenFeatures:
        return TokenFeatures(self.stream.vocabulary)

    def start(self, *, key: Key[Array, ""]) -> Answering:
        example = jax.tree.map(lambda leaf: leaf[0], self.stream.draw(key, 1))
        return Answering(example, jnp.ones(self.cells, bool))

    def observe(self, state: Answering) -> Int32[Array, " cells"]:
        return state.example.inputs

    def legal(self, state: Answering) -> Bool[Array, " num_actions"]:
        """Every token in every cell that is not answered yet."""
        return jnp.repeat(state.left, self.stream.vocabulary)

    def play(self, state: Answering, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        cell, token = jnp.divmod(action, self.stream.vocabulary)
        right = state.left[cell] & (state.example.labels[cell] == token)
        after = Answering(state.example, state.left.at[cell].set(False))
        return Played(after, right.astype(jnp.float32) / self.cells, ~jnp.any(after.left))


def puzzle_spec(cells: int, vocabulary: int) -> EnvSpec:
    """The spec of a puzzle, without generating its examples."""
    observation = jax.ShapeDtypeStruct((cells,), jnp.int32)
    return EnvSpec(Discrete(cells * vocabulary), observation, encode=TokenFeatures(vocabulary))
