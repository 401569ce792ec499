"""A small transformer over the cells of a board and the actions."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._action_heads import ActionEmbeddings, ActionHeads, ActionTokens
from hackmatrix_rl.agent.networks._actor_critic import BlockActorCritic, TrunkOutput
from hackmatrix_rl.agent.networks._conv import feature_sizes
from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    Dense,
    Heads,
    LayerNorm,
    self_attention,
)
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.system.errors import counts


class AttentionBlock(eqx.Module):
    """A pre-norm block: self-attention, then two dense layers; the residual sum is float32."""

    look_norm: LayerNorm
    ask: Dense  #: The projections to queries, keys and values of all heads, concatenated.
    answer: Dense  #: The output projection.
    think_norm: LayerNorm
    widen: Dense
    narrow: Dense
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights; `gain` scales the last layer of both parts."""
        ask_key, answer_key, widen_key, narrow_key = jax.random.split(key, 4)
        self.look_norm = LayerNorm(width)
        self.ask = Dense(width, 3 * width, gain=1.0, key=ask_key)
        self.answer = Dense(width, width, gain=gain, key=answer_key)
        self.think_norm = LayerNorm(width)
        self.widen = Dense(width, 2 * width, gain=HIDDEN_GAIN, key=widen_key)
        self.narrow = Dense(2 * width, width, gain=gain, key=narrow_key)
        self.heads = heads

    def __call__(self, tokens: Float32[Array, "tokens width"]) -> Float32[Array, "tokens width"]:
        projected = self.ask(jax.vmap(self.look_norm)(tokens))
        tokens = tokens + self.answer.full(self_attention(projected, self.heads))
        normal = jax.vmap(self.think_norm)(tokens)
        return tokens + self.narrow.full(jax.nn.relu(self.widen(normal)))


@final
class TransformerActorCritic(BlockActorCritic):
    """Attention over tokens of the cells, the flat features and the actions. No memory.

    An action that concerns no cell has a token; the flat features share one. All cells share a
    layer, and have learned position embeddings. The token of the flat features queries the actions,
    as in a `ResNetActorCritic`, and gives the value.

    Source: Vaswani et al. 2017, "Attention is all you need"; Xiong et al. 2020, "On layer
    normalization in the transformer architecture" (normalisation before each part).
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Dense  #: From the features of a cell to its token.
    places: Float[Array, "cells width"]  #: The position embedding of each cell.
    flat: Dense  #: From the flat features to their token.
    tokens: ActionTokens  #: Of the actions that concern no cell.
    blocks: Callable[[Array], Array]
    norm: LayerNorm  #: Of each token, after the blocks.
    embeddings: ActionEmbeddings  #: Of all actions.
    heads: Heads

    def __init__(
        self, spec: EnvSpec, *, width: int = 64, depth: int = 2, heads: int = 4, key: Key[Array, ""]
    ) -> None:
        """Draws the weights: tokens of size `width`, `depth` blocks, `heads` heads of attention.

        Raises:
            ValueError: the environment has no grid, a size is less than 1, or `width` is not a
                multiple of `heads`.
        """
        counts(width=width, depth=depth, heads=heads)
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads, {heads}")
        rows, cols, channels, num_flat = feature_sizes(spec)
        keys = iter(jax.random.split(key, 7))
        self.encode = spec.encode
        self.cell = Dense(channels, width, gain=1.0, key=next(keys))
        self.places = 0.5 * jax.random.normal(next(keys), (rows * cols, width), jnp.float32)
        self.flat = Dense(num_flat, width, gain=1.0, key=next(keys))
        self.tokens = ActionTokens(spec, width, key=next(keys))
        self.blocks = eqx.filter_vmap(
            lambda key: AttentionBlock(width, heads, gain=(2 * depth) ** -0.5, key=key)
        )(jax.random.split(next(keys), depth))
        self.norm = LayerNorm(width)
        self.embeddings = ActionEmbeddings(spec, width, key=next(keys))
        self.heads = ActionHeads(width, spec.num_actions, key=next(keys))

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        features = self.encode(observation)
        assert features.grid is not None  # checked at construction
        count = self.places.shape[0]
        cells = self.cell.full(features.grid.reshape(count, -1)) + self.places.astype(jnp.float32)
        flat = self.flat.full(features.flat)[None]
        tokens = jnp.concatenate([flat, cells, self.tokens(observation)])
        normal = jax.vmap(self.norm)(self.through_blocks(tokens))
        hidden, cells, actions = normal[0], normal[1 : 1 + count], normal[1 + count :]
        return self.embeddings(observation, hidden, cells, actions), carry
