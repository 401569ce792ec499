"""Recurrent networks: GRU and LSTM."""

from collections.abc import Callable
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import RecurrentActorCritic
from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, Dense, DenseHeads, Heads
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.system.errors import counts


class GRUCell(eqx.Module):
    """One step of a gated recurrent unit.

    The matrix products are in the dtype of the weights. The state and its update are float32:
    16 bits would round away a small update.

    Source: Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder"
    (with the reset gate after the product, as in cuDNN).
    """

    inwards: Dense
    recurrent: Dense

    def __init__(self, inputs: int, width: int, *, key: Key[Array, ""]) -> None:
        in_key, state_key = jax.random.split(key)
        self.inwards = Dense(inputs, 3 * width, gain=1.0, key=in_key)
        self.recurrent = Dense(width, 3 * width, gain=1.0, key=state_key)

    def __call__(
        self, driven: Float[Array, " gates"], state: Float32[Array, " width"]
    ) -> Float32[Array, " width"]:
        """The next state; `driven` is `inwards(input)`."""
        from_input = jnp.split(driven.astype(jnp.float32), 3)
        from_state = jnp.split(self.recurrent.full(state), 3)
        reset = jax.nn.sigmoid(from_input[0] + from_state[0])
        update = jax.nn.sigmoid(from_input[1] + from_state[1])
        candidate = jnp.tanh(from_input[2] + reset * from_state[2])
        return (1.0 - update) * candidate + update * state


class LSTMMemory(eqx.Module):
    """The memory of an LSTM."""

    shown: Float32[Array, "*batch width"]  #: The hidden state `h`, which gates and heads read.
    kept: Float32[Array, "*batch width"]  #: The cell state `c`.


class LSTMCell(eqx.Module):
    """One step of a long short-term memory, with dtypes as in a `GRUCell`.

    Source: Hochreiter and Schmidhuber 1997, "Long short-term memory"; Gers et al. 2000, "Learning
    to forget"; Jozefowicz et al. 2015, "An empirical exploration of recurrent network
    architectures" (the forget gate's bias of 1 at the start).
    """

    inwards: Dense
    recurrent: Dense

    def __init__(self, inputs: int, width: int, *, key: Key[Array, ""]) -> None:
        in_key, state_key = jax.random.split(key)
        inwards = Dense(inputs, 4 * width, gain=1.0, key=in_key)
        remembering = inwards.bias.at[width : 2 * width].set(1.0)
        self.inwards = eqx.tree_at(lambda layer: layer.bias, inwards, remembering)
        self.recurrent = Dense(width, 4 * width, gain=1.0, key=state_key)

    def __call__(self, driven: Float[Array, " gates"], memory: LSTMMemory) -> LSTMMemory:
        """The next memory; `driven` is `inwards(input)`."""
        gates = driven.astype(jnp.float32) + self.recurrent.full(memory.shown)
        write, keep, candidate, show = jnp.split(gates, 4)
        kept = jax.nn.sigmoid(keep) * memory.kept + jax.nn.sigmoid(write) * jnp.tanh(candidate)
        return LSTMMemory(shown=jax.nn.sigmoid(show) * jnp.tanh(kept), kept=kept)


class _CellActorCritic(RecurrentActorCritic):
    """A dense layer, a recurrent cell, and the heads."""

    CELL: ClassVar[type[Any]]

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    embed: Dense
    cell: Any
    heads: Heads

    def __init__(self, spec: EnvSpec, *, width: int = 128, key: Key[Array, ""]) -> None:
        """Draws the weights; `width` is the size of the dense layer and of the memory."""
        counts(width=width)
        embed_key, cell_key, head_key = jax.random.split(key, 3)
        self.encode = spec.encode
        self.embed = Dense(spec.num_features, width, gain=HIDDEN_GAIN, key=embed_key)
        self.cell = self.CELL(width, width, key=cell_key)
        self.heads = DenseHeads(width, spec.actions, key=head_key)

    @final
    def drive(self, observation: PyTree[Array]) -> Float[Array, " gates"]:
        return self.cell.inwards(jax.nn.relu(self.embed(self.encode(observation).ravel())))

    def _zeros(self) -> Float32[Array, " width"]:
        return jnp.zeros((self.cell.recurrent.weight.shape[0],), jnp.float32)


@final
class GRUActorCritic(_CellActorCritic):
    """A dense layer (`embed`), a gated recurrent unit (`cell`), and the heads."""

    CELL = GRUCell

    cell: GRUCell

    def initial_carry(self) -> Float32[Array, " width"]:
        return self._zeros()

    def advance(
        self, driven: Float[Array, " gates"], carry: Float32[Array, " width"]
    ) -> tuple[Float32[Array, " width"], Float32[Array, " width"]]:
        memory = self.cell(driven, carry)
        return memory, memory


@final
class LSTMActorCritic(_CellActorCritic):
    """A dense layer (`embed`), a long short-term memory (`cell`), and the heads."""

    CELL = LSTMCell

    cell: LSTMCell

    def initial_carry(self) -> LSTMMemory:
        zeros = self._zeros()
        return LSTMMemory(shown=zeros, kept=zeros)

    def advance(
        self, driven: Float[Array, " gates"], carry: LSTMMemory
    ) -> tuple[Float32[Array, " width"], LSTMMemory]:
        memory = self.cell(driven, carry)
        return memory.shown, memory
