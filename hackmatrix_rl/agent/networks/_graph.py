"""A network over the vertices and edges of a complete graph, for boards of every size."""

import math
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import BlockActorCritic, TrunkOutput
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
from hackmatrix_rl.agent.networks._recursive_blocks import normalized
from hackmatrix_rl.env import CliqueObservation, EnvSpec
from hackmatrix_rl.games import clique
from hackmatrix_rl.system.errors import counts

STATE_FEATURES = 5
"""Own edge, other player's edge, free edge, vertex, and whether the player to move began."""

States = Float32[Array, "vertices vertices width"]
"""A symmetric matrix: the states of vertices on the diagonal, of edges off the diagonal."""


class MessageBlock(eqx.Module):
    """A residual round of messages between vertices and edges; the sum is float32.

    Each state sends a message `m[i, j]`, and the state at `[i, j]` receives

    - the mean message at vertex `i`, plus the mean message at vertex `j`;
    - the sum over `k` of `m[i, k] * m[k, j]`: for an edge, the pairs of edges that close a
      triangle with it, and its two ends (`k = i` and `k = j`); for a vertex, its edges.

    Both are symmetric in `i` and `j`, because edges have no direction.

    Source: Maron et al. 2019, "Provably powerful graph networks" (the product); Gilmer et al.
    2017, "Neural message passing for quantum chemistry".
    """

    message: Dense
    own: Dense  #: From the state itself.
    pairs: Dense  #: From the sum over pairs of messages.
    ends: Dense  #: From the mean message of a vertex.
    narrow: Dense

    def __init__(self, width: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights; `gain` scales the layer whose output is added to the states."""
        keys = iter(jax.random.split(key, 5))
        self.message = Dense(width, width, gain=HIDDEN_GAIN, key=next(keys))
        self.own = Dense(width, width, gain=HIDDEN_GAIN, key=next(keys))
        self.pairs = Dense(width, width, gain=0.5, key=next(keys))
        self.ends = Dense(width, width, gain=1.0, key=next(keys))
        self.narrow = Dense(width, width, gain=gain, key=next(keys))

    def __call__(self, states: States) -> States:
        seen = normalized(states)
        messages = jax.nn.relu(self.message.full(seen))
        # One fused sum: on a CPU, a small matrix product for each channel takes longer.
        pairs = jnp.sum(messages[:, :, None] * messages[None], axis=1)
        at_vertex = self.ends.full(jnp.mean(messages, axis=1))
        gathered = at_vertex[:, None] + at_vertex[None, :]
        read = self.own.full(seen) + self.pairs.full(pairs) + gathered
        return states + self.narrow.full(jax.nn.relu(read))


class AttentionPool(eqx.Module):
    """Pools the states of a graph of any size to one vector.

    Each head averages its part of the values, weighted by a softmax over all states.

    Source: Li et al. 2016, "Gated graph sequence neural networks" (the readout); Vaswani et al.
    2017, "Attention is all you need" (the softmax).
    """

    score: Dense
    value: Dense

    def __init__(self, width: int, heads: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights; initially the softmax is nearly uniform."""
        score_key, value_key = jax.random.split(key)
        self.score = Dense(width, heads, gain=POLICY_GAIN, key=score_key)
        self.value = Dense(width, width, gain=HIDDEN_GAIN, key=value_key)

    def __call__(self, states: Float[Array, "states width"]) -> Float32[Array, " width"]:
        weights = jax.nn.softmax(self.score.full(states), axis=0)
        values = jax.nn.relu(self.value.full(states)).reshape(*weights.shape, -1)
        return jnp.sum(weights[..., None] * values, axis=0).ravel()


@final
class EdgeHeads(Heads):
    """A logit from the state of each edge, by a shared layer, and the value from the pooled vector.

    Their input is one vector: the pooled vector, then the states of all edges.
    """

    policy: Dense
    value: Dense | ValueHead

    def __init__(self, width: int, *, key: Key[Array, ""]) -> None:
        policy_key, value_key = jax.random.split(key)
        self.policy = Dense(width, 1, gain=POLICY_GAIN, key=policy_key)
        self.value = Dense(width, 1, gain=VALUE_GAIN, key=value_key)

    def __call__(self, hidden: Float[Array, " inputs"]) -> HeadOutputs:
        """Logits of all edges, and the value, from the trunk's output."""
        pooled = self.value_input(hidden)
        edges = hidden[pooled.shape[0] :].reshape(-1, pooled.shape[0])
        return self.policy.full(edges)[:, 0], apply_value(self.value, pooled)

    def value_input(self, hidden: Float[Array, " inputs"]) -> Float[Array, " some"]:
        return hidden[: self.policy.weight.shape[0]]


@final
class GraphActorCritic(BlockActorCritic):
    """Message passing between the vertices and edges of a clique game. No memory.

    A permutation of the vertices permutes the logits and does not change the value. No weight
    depends on the number of vertices, so one network plays boards of every size:

        network = hm.GraphActorCritic(hm.Batched(small).spec, key=key)
        hm.check_policy(network, hm.Batched(large).spec)

    Source: Battaglia et al. 2018, "Relational inductive biases, deep learning, and graph
    networks".

    Attributes:
        embed: from the features of a vertex or an edge to its state.
        pool: pools the states for the value.
    """

    embed: Dense
    blocks: Callable[[Array], Array]
    pool: AttentionPool
    heads: Heads

    def __init__(
        self, spec: EnvSpec, *, width: int = 32, depth: int = 3, heads: int = 4, key: Key[Array, ""]
    ) -> None:
        """Draws the weights: states of size `width`, `depth` blocks, `heads` heads of the pooling.

        Raises:
            ValueError: the environment is no clique game, a size is less than 1, or `width` is not
                a multiple of `heads`.
        """
        counts(width=width, depth=depth, heads=heads)
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads, {heads}")
        if not isinstance(spec.observation, CliqueObservation):
            raise ValueError(
                "the network graph plays only the clique game (hm.CliqueGame), and this "
                f"environment's observation is a {type(spec.observation).__name__}; use mlp"
            )
        embed_key, blocks_key, pool_key, head_key = jax.random.split(key, 4)
        self.embed = Dense(STATE_FEATURES, width, gain=1.0, key=embed_key)
        self.blocks = eqx.filter_vmap(lambda key: MessageBlock(width, gain=depth**-0.5, key=key))(
            jax.random.split(blocks_key, depth)
        )
        self.pool = AttentionPool(width, heads, key=pool_key)
        self.heads = EdgeHeads(width, key=head_key)

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        features = state_features(observation)
        states = normalized(self.through_blocks(self.embed.full(features)))
        one, other = clique.edges(features.shape[0]).T
        pooled = self.pool(states.reshape(-1, states.shape[-1]))
        return jnp.concatenate([pooled, states[one, other].ravel()]), carry


def state_features(observation: CliqueObservation) -> Float32[Array, "vertices vertices features"]:
    """The input features of each vertex (on the diagonal) and each edge."""
    count = observation.own.shape[-1]
    vertices = (1 + math.isqrt(1 + 8 * count)) // 2
    numbers = clique.edge_numbers(vertices)
    is_vertex = jnp.asarray(numbers < 0)
    own, other = (each[numbers] & ~is_vertex for each in (observation.own, observation.other))
    free = ~(own | other | is_vertex)
    first = jnp.broadcast_to(observation.first, is_vertex.shape)
    return jnp.stack([own, other, free, is_vertex, first], axis=-1).astype(jnp.float32)
