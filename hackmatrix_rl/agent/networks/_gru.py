"""A gated recurrent network, for environments in which memory matters."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, Dense, DenseHeads, Heads
from hackmatrix_rl.agent.networks._trunk import RecurrentActorCritic
from hackmatrix_rl.env import EnvSpec, Features


class GRUCell(eqx.Module):
    """One step of a gated recurrent unit.

    The matrix products are in the dtype of the weights. The state and its update are float32:
    16 bits would round away a small update.

    Source: Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder"
    (with the reset gate after the product, as in cuDNN).

    Attributes:
        inwards: from the input to the reset gate, the update gate and the candidate.
        recurrent: the same from the state.
    """

    inwards: Dense
    recurrent: Dense

    def __init__(self, inputs: int, width: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights.

        Args:
            inputs: size of the input.
            width: size of the state.
            key: randomness of the weights.
        """
        in_key, state_key = jax.random.split(key)
        self.inwards = Dense(inputs, 3 * width, gain=1.0, key=in_key)
        self.recurrent = Dense(width, 3 * width, gain=1.0, key=state_key)

    def __call__(
        self, driven: Float[Array, " gates"], state: Float32[Array, " width"]
    ) -> Float32[Array, " width"]:
        """The next state.

        Args:
            driven: `inwards` of the input. It does not depend on the state, so a caller can
                compute it for all steps at once.
            state: the state before.
        """
        from_input = jnp.split(driven.astype(jnp.float32), 3)
        from_state = jnp.split(self.recurrent.full(state), 3)
        reset = jax.nn.sigmoid(from_input[0] + from_state[0])
        update = jax.nn.sigmoid(from_input[1] + from_state[1])
        candidate = jnp.tanh(from_input[2] + reset * from_state[2])
        return (1.0 - update) * candidate + update * state


@final
class GRUActorCritic(RecurrentActorCritic):
    """A dense layer, a gated recurrent unit, and the heads.

    Attributes:
        encode: turns an observation into features.
        embed: the dense layer before the memory.
        cell: the memory.
        heads: logits and value.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    embed: Dense
    cell: GRUCell
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
        self.cell = GRUCell(width, width, key=cell_key)
        self.heads = DenseHeads(width, spec.num_actions, key=head_key)

    def initial_carry(self) -> Float32[Array, " width"]:
        """A memory of zeros."""
        return jnp.zeros((self.cell.recurrent.weight.shape[0],), jnp.float32)

    def drive(self, observation: PyTree[Array]) -> Float[Array, " gates"]:
        """The contribution of the observation to the gates."""
        return self.cell.inwards(jax.nn.relu(self.embed(self.encode(observation).ravel())))

    def advance(
        self, driven: Float[Array, " gates"], carry: Float32[Array, " width"]
    ) -> tuple[Float32[Array, " width"], Float32[Array, " width"]]:
        """The next memory, twice: as the input of the heads and as the carry."""
        memory = self.cell(driven, carry)
        return memory, memory
