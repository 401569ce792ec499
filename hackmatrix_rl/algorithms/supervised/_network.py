"""A recursive network that predicts the token of every cell of a board."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks import (
    Cycles,
    Dense,
    Heads,
    Linear,
    RecursiveActorCritic,
    Thought,
    check_recursion,
    drawn_start,
    recursive_blocks,
)
from hackmatrix_rl.agent.precision import NonTrainable
from hackmatrix_rl.env import EnvSpec, Features

HALT_BIAS = -5.0
"""The initial halting logit: an untrained network hardly ever halts."""


@final
class AnswerHeads(Heads):
    """The logits of the tokens of each cell, and the halting logit from the first position."""

    label: Linear
    value: Dense

    def __init__(self, width: int, vocabulary: int, *, key: Key[Array, ""]) -> None:
        label_key, value_key = jax.random.split(key)
        self.label = Linear(width, vocabulary, key=label_key)
        flat = Dense(width, 1, gain=0.0, key=value_key)
        self.value = eqx.tree_at(lambda layer: layer.bias, flat, jnp.full((1,), HALT_BIAS))

    def __call__(
        self, hidden: Float[Array, " numbers"]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""]]:
        high = hidden.reshape(-1, self.label.weight.shape[0])
        return self.label.full(high[1:]).ravel(), self.value.full(high[0])[0]

    def value_input(self, hidden: Float[Array, " numbers"]) -> Float[Array, " width"]:
        return hidden.reshape(-1, self.label.weight.shape[0])[0]


@final
class AnswerNetwork(RecursiveActorCritic):
    """A small stack of blocks, applied repeatedly to two latent states of every cell.

    An action is a token in a cell, `cell * vocabulary + token`. The value is the halting logit: it
    is positive if the network predicts that its answer is correct. The memory is the `Thought` with
    both latent states: each call continues from the previous one, without a gradient through it.

        network = AnswerNetwork(environment.spec, width=64, key=key)
        logits, halt, thought = network(tokens, network.initial_carry())

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    token: Linear  #: The embedding of each token.
    first: Float[Array, " width"]  #: The embedding of the first position; starts at 0.
    start: NonTrainable
    blocks: Callable[[Array], Array]
    cycles: Cycles
    gradient_cycles: int = eqx.field(static=True)
    heads: AnswerHeads
    cells: int = eqx.field(static=True)  #: Number of cells of a board.

    def __init__(
        self,
        spec: EnvSpec,
        *,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
        mixer: str = "swiglu",
        high_cycles: int = 3,
        low_cycles: int = 6,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights.

        Args:
            spec: the spec of a puzzle: a vector of tokens, and an action for each token in each
                cell.
            width: size of each embedding; a multiple of `2 * heads`.
            depth: number of blocks in the stack.
            heads: number of attention heads.
            mixer: see `RecursiveNetwork`.
            high_cycles: updates of `z_H` per call.
            low_cycles: updates of `z_L` before each update of `z_H`.
            key: source of randomness for the weights.

        Raises:
            TypeError: a number of cycles is not a whole number.
            ValueError: the observation is not a vector of tokens, there is not one action for each
                token in each cell, or a size is out of range.
        """
        check_recursion(width, depth, heads, mixer)
        self.cycles = Cycles.of(high_cycles, low_cycles)
        grid = jax.eval_shape(spec.encode, spec.observation).grid
        if grid is None or grid.shape[0] != 1 or spec.num_actions != grid.shape[1] * grid.shape[2]:
            raise ValueError(
                "spec is not a puzzle: expected a vector of tokens, TokenFeatures as encode, and "
                "an action for each token in each cell"
            )
        self.encode = spec.encode
        _, self.cells, vocabulary = grid.shape
        keys = iter(jax.random.split(key, 4))
        # The rows are embeddings, initialized with standard deviation 1 like the latent states.
        self.token = Linear(vocabulary, width, std=1.0, key=next(keys))
        self.first = jnp.zeros((width,), jnp.float32)
        self.start = drawn_start(width, key=next(keys))
        self.blocks = recursive_blocks(1 + self.cells, width, depth, heads, mixer, key=next(keys))
        self.gradient_cycles = low_cycles
        self.heads = AnswerHeads(width, vocabulary, key=next(keys))

    def initial_carry(self) -> Thought:
        """Both latent states before the first call."""
        return self.begin(jnp.zeros((1 + self.cells, self.first.size), jnp.float32))

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " numbers"], PyTree[Array]]:
        thought = self.think(self.embed(observation), carry)
        return thought.high.ravel(), thought

    def embed(self, observation: PyTree[Array]) -> Float32[Array, "positions width"]:
        """The embedding of each position: the first one, then the cells."""
        grid = self.encode(observation).grid
        assert grid is not None  # checked at construction
        return jnp.concatenate([self.first.astype(jnp.float32)[None], self.token.full(grid[0])])
