"""A long short-term memory, for environments in which memory matters."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, Dense, DenseHeads, Heads
from hackmatrix_rl.agent.networks._trunk import RecurrentActorCritic
from hackmatrix_rl.env import EnvSpec, Features


class LSTMMemory(eqx.Module):
    """The memory of an LSTM.

    Attributes:
        shown: what the gates and the heads read.
        kept: what the gates write to.
    """

    shown: Float32[Array, "*batch width"]
    kept: Float32[Array, "*batch width"]


class LSTMCell(eqx.Module):
    """One step of a long short-term memory.

    The matrix products are in the dtype of the weights. The memory and its update are float32:
    16 bits would round away a small update.

    Source: Hochreiter and Schmidhuber 1997, "Long short-term memory"; Gers et al. 2000, "Learning
    to forget"; Jozefowicz et al. 2015, "An empirical exploration of recurrent network
    architectures" (the forget gate's bias of 1 at the start).

    Attributes:
        inwards: from the input to the input gate, the forget gate, the candidate and the output
            gate.
        recurrent: the same from what the memory shows.
    """

    inwards: Dense
    recurrent: Dense

    def __init__(self, inputs: int, width: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights.

        Args:
            inputs: size of the input.
            width: size of the memory.
            key: randomness of the weights.
        """
        in_key, state_key = jax.random.split(key)
        inwards = Dense(inputs, 4 * width, gain=1.0, key=in_key)
        remembering = inwards.bias.at[width : 2 * width].set(1.0)
        self.inwards = eqx.tree_at(lambda layer: layer.bias, inwards, remembering)
        self.recurrent = Dense(width, 4 * width, gain=1.0, key=state_key)

    def __call__(self, driven: Float[Array, " gates"], memory: LSTMMemory) -> LSTMMemory:
        """The next memory.

        Args:
            driven: `inwards` of the input. It does not depend on the memory, so a caller can
                compute it for all steps at once.
            memory: the memory before.
        """
        gates = driven.astype(jnp.float32) + self.recurrent.full(memory.shown)
        write, keep, candidate, show = jnp.split(gates, 4)
        kept = jax.nn.sigmoid(keep) * memory.kept + jax.nn.sigmoid(write) * jnp.tanh(candidate)
        return LSTMMemory(shown=jax.nn.sigmoid(show) * jnp.tanh(kept), kept=kept)


@final
class LSTMActorCritic(RecurrentActorCritic):
    """A dense layer, a long short-term memory, and the heads.

    Attributes:
        encode: turns an observation into features.
        embed: the dense layer before the memory.
        cell: the memory.
        heads: logits and value.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    embed: Dense
    cell: LSTMCell
    heads: Heads

    def __init__(self, spec: EnvSpec, *, width: int = 128, key: Key[Array, ""]) -> None:
        """Draws the weights.

        Args:
            spec: of the environment.
            width: units of the dense layer and of the memory.
            key: randomness of the weights.

        Raises:
            ValueError: `width` is less than 1.
        """
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width}")
        embed_key, cell_key, head_key = jax.random.split(key, 3)
        self.encode = spec.encode
        self.embed = Dense(spec.num_features, width, gain=HIDDEN_GAIN, key=embed_key)
        self.cell = LSTMCell(width, width, key=cell_key)
        self.heads = DenseHeads(width, spec.num_actions, key=head_key)

    def initial_carry(self) -> LSTMMemory:
        """A memory of zeros."""
        zeros = jnp.zeros((self.cell.recurrent.weight.shape[0],), jnp.float32)
        return LSTMMemory(shown=zeros, kept=zeros)

    def drive(self, observation: PyTree[Array]) -> Float[Array, " gates"]:
        """The contribution of the observation to the gates."""
        return self.cell.inwards(jax.nn.relu(self.embed(self.encode(observation).ravel())))

    def advance(
        self, driven: Float[Array, " gates"], carry: LSTMMemory
    ) -> tuple[Float32[Array, " width"], LSTMMemory]:
        """The output of the next memory, and the whole memory."""
        memory = self.cell(driven, carry)
        return memory.shown, memory
