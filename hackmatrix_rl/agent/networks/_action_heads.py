"""Logits from an embedding of each action."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    POLICY_GAIN,
    VALUE_GAIN,
    Dense,
    HeadOutputs,
    Heads,
    ValueHead,
    apply_value,
)
from hackmatrix_rl.env import ActionFeatures, EnvSpec, check_discrete

EMBEDDING = 32
"""Size of the embedding of an action. HackMatrix has fewer actions, so any logits are possible."""


class ActionTokens(eqx.Module):
    """A token for each action that concerns no cell: a learned vector, plus layers of its features.

    All actions share the layers, so what they learn from one action (that it is not affordable)
    generalises to the others.
    """

    own: Float[Array, "others width"]
    widen: Dense
    narrow: Dense
    features: ActionFeatures | None = eqx.field(static=True)

    def __init__(self, spec: EnvSpec, width: int, *, key: Key[Array, ""]) -> None:
        check_discrete(spec, "this network, which embeds each action,")
        own_key, widen_key, narrow_key = jax.random.split(key, 3)
        self.features = spec.action_features
        others, numbers = spec.num_actions, 0
        if spec.action_features is not None:
            others -= jax.eval_shape(spec.action_features.cells, spec.observation).shape[0]
            numbers = jax.eval_shape(spec.action_features.numbers, spec.observation).shape[1]
        self.own = jax.random.normal(own_key, (others, width), jnp.float32)
        self.widen = Dense(width + numbers, width, gain=HIDDEN_GAIN, key=widen_key)
        self.narrow = Dense(width, width, gain=1.0, key=narrow_key)

    def __call__(self, observation: PyTree[Array]) -> Float32[Array, "others width"]:
        # In float32: the gradient of a vector that all observations share is a sum over them.
        own = self.own.astype(jnp.float32)
        known = own
        if self.features is not None:
            numbers = self.features.numbers(observation).astype(own.dtype)
            missing = own.shape[0] - numbers.shape[0]
            known = jnp.concatenate([own, jnp.pad(numbers, ((missing, 0), (0, 0)))], axis=-1)
        changed = self.narrow.full(jax.nn.relu(self.widen(known)))
        return own + changed


class ActionEmbeddings(eqx.Module):
    """The embedding of each action: from the cell that it concerns, or from its token."""

    of_cell: Dense | None
    of_token: Dense
    features: ActionFeatures | None = eqx.field(static=True)

    def __init__(self, spec: EnvSpec, width: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights; `width` is the size of a cell's hidden vector and of a token."""
        cell_key, token_key = jax.random.split(key)
        self.features = spec.action_features
        self.of_cell = None
        if spec.action_features is not None:
            self.of_cell = Dense(width, EMBEDDING, gain=1.0, key=cell_key)
        self.of_token = Dense(width, EMBEDDING, gain=1.0, key=token_key)

    def __call__(
        self,
        observation: PyTree[Array],
        hidden: Float[Array, " width"],
        cells: Float[Array, "cells channels"],
        tokens: Float[Array, "others channels"],
    ) -> Float[Array, " inputs"]:
        """The input of `ActionHeads`: the hidden layer, then the embeddings of all actions."""
        embedded = self.of_token(tokens)
        if self.features is not None and self.of_cell is not None:
            at = self.features.cells(observation)
            # A one-hot sum is faster than reading a few cells, and 0 for cells off the board.
            here = jax.nn.one_hot(at, cells.shape[0], dtype=cells.dtype)
            found = jnp.sum(here[:, :, None] * cells[None], axis=1)
            embedded = jnp.concatenate([self.of_cell(found), embedded])
        # In float32, since without features all observations share the embeddings.
        parts = (hidden, embedded.ravel())
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])


@final
class ActionHeads(Heads):
    """Logits as dot products of a query from the hidden layer with each action's embedding.

    Source: Vinyals et al. 2017, "StarCraft II: a new challenge for reinforcement learning"
    (pointing at an entity); Vaswani et al. 2017 (the scale of the product).
    """

    query: Dense
    bias: Float[Array, " num_actions"]
    value: Dense | ValueHead

    def __init__(self, width: int, num_actions: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights; `width` is the size of the hidden layer without the embeddings."""
        query_key, value_key = jax.random.split(key)
        self.query = Dense(width, EMBEDDING, gain=POLICY_GAIN, key=query_key)
        self.bias = jnp.zeros((num_actions,), jnp.float32)
        self.value = Dense(width, 1, gain=VALUE_GAIN, key=value_key)

    def __call__(self, hidden: Float[Array, " inputs"]) -> HeadOutputs:
        """Logits of all actions, and the value, from the result of `ActionEmbeddings`."""
        trunk = self.value_input(hidden)
        embedded = hidden[trunk.shape[0] :].reshape(-1, EMBEDDING)
        query = self.query.full(trunk) * EMBEDDING**-0.5
        # A sum rather than a matrix product: the embeddings differ between observations.
        logits = jnp.sum(embedded.astype(jnp.float32) * query[None], axis=1)
        return logits + self.bias.astype(jnp.float32), apply_value(self.value, trunk)

    def value_input(self, hidden: Float[Array, " inputs"]) -> Float[Array, " some"]:
        return hidden[: self.query.weight.shape[0]]
