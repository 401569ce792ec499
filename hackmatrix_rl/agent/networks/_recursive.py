"""A small network that is applied repeatedly to its own output."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks._action_heads import ActionEmbeddings, ActionHeads, ActionTokens
from hackmatrix_rl.agent.networks._actor_critic import BlockActorCritic, TrunkOutput
from hackmatrix_rl.agent.networks._conv import feature_sizes
from hackmatrix_rl.agent.networks._layers import Heads
from hackmatrix_rl.agent.networks._recursive_blocks import (
    Linear,
    check_recursion,
    recursive_blocks,
    truncated,
)
from hackmatrix_rl.agent.precision import NonTrainable, accumulate_in_float32
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.system.errors import whole

R = TypeVar("R", bound="RecursiveActorCritic")


class Thought(NamedTuple):
    """The two states of the recursion, each with a vector for every position.

    Attributes:
        high: `z_H`, the current answer, which the heads read.
        low: `z_L`, the latent state of the reasoning.
    """

    high: Float32[Array, "*positions width"]
    low: Float32[Array, "*positions width"]


class Cycles(eqx.Module):
    """The numbers of cycles. They are arrays, so one compiled program serves all numbers.

    Attributes:
        high: updates of `z_H`, at least 1.
        low: updates of `z_L` before each of them, at least 1.
    """

    high: Int32[Array, ""]
    low: Int32[Array, ""]

    @classmethod
    def of(cls, high: int, low: int) -> "Cycles":
        """Makes the arrays.

        Raises:
            TypeError: one is no whole number.
            ValueError: one is less than 1.
        """
        counts = whole("high_cycles", high), whole("low_cycles", low)
        return cls(*(jnp.asarray(count, jnp.int32) for count in counts))


def drawn_start(width: int, *, key: Key[Array, ""]) -> NonTrainable:
    """Draws the initial `Thought`, the same for every position. It is not trained."""
    starts = (truncated(key, (width,), 1.0) for key in jax.random.split(key))
    return NonTrainable(Thought(*starts))


class RecursiveActorCritic(BlockActorCritic):
    """A network that applies one stack of blocks repeatedly to two states.

    A cycle of `z_H` is `low_cycles` times `z_L <- f(z_L + z_H + x)`, then `z_H <- f(z_H + z_L)`,
    where `f` is the stack and `x` the embedded observation. Only the last cycle of `z_H` has a
    gradient.

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".
    """

    start: eqx.AbstractVar[NonTrainable]  #: The `Thought` of every position at the start.
    cycles: eqx.AbstractVar[Cycles]  #: Number of cycles of each state.
    #: The gradient flows through the last updates of `z_L`, at most this many.
    gradient_cycles: eqx.AbstractVar[int]

    @final
    def with_cycles(self: R, high_cycles: int, low_cycles: int) -> R:
        """The same network with other numbers of cycles; nothing is compiled again.

        The gradient still flows through the last `gradient_cycles` updates of `z_L` at most.

        Raises:
            TypeError: one is no whole number.
            ValueError: one is less than 1.
        """
        cycles = Cycles.of(high_cycles, low_cycles)
        changed: R = eqx.tree_at(lambda network: network.cycles, self, cycles)
        return changed

    @final
    def begin(self, seen: Float32[Array, "positions width"]) -> Thought:
        """Both states before the first cycle."""
        return Thought(*(jnp.broadcast_to(each, seen.shape) for each in self.start.value))

    @final
    def think(self, seen: Float32[Array, "positions width"], thought: Thought) -> Thought:
        """All cycles, from given states. Only the last cycle of `z_H` has a gradient."""
        arrays, rest = eqx.partition((self, seen, thought), eqx.is_inexact_array)
        still, seen_still, thought = eqx.combine(jax.lax.stop_gradient(arrays), rest)
        # The last cycle's updates of `z_L` before those with a gradient.
        before = jnp.maximum(self.cycles.low - self.gradient_cycles, 0)

        def cycle(_: Int32[Array, ""], thought: Thought) -> Thought:
            return still.rethink(still.work(seen_still, thought, still.cycles.low))

        thought = jax.lax.fori_loop(0, self.cycles.high - 1, cycle, thought)
        thought = still.work(seen_still, thought, before)
        return self.rethink(self.work_with_gradient(seen, thought, self.cycles.low - before))

    @final
    def work(
        self, seen: Float32[Array, "positions width"], thought: Thought, count: Int32[Array, ""]
    ) -> Thought:
        """`count` updates of `z_L`, in a loop without a gradient."""
        return jax.lax.fori_loop(0, count, lambda _, thought: self.rework(seen, thought), thought)

    @final
    def work_with_gradient(
        self, seen: Float32[Array, "positions width"], thought: Thought, count: Int32[Array, ""]
    ) -> Thought:
        """`count` updates of `z_L`, at most `gradient_cycles`, in a differentiable loop."""
        wide, narrow = accumulate_in_float32(self)

        def update(thought: Thought, index: Int32[Array, ""]) -> tuple[Thought, None]:
            # `cond` rather than `where`: a skipped update takes no time.
            changed = jax.lax.cond(
                index < count,
                lambda thought: narrow(wide).rework(seen, thought),
                lambda thought: thought,
                thought,
            )
            return changed, None

        indices = jnp.arange(self.gradient_cycles, dtype=jnp.int32)
        return jax.lax.scan(update, thought, indices)[0]

    @final
    def rework(self, seen: Float32[Array, "positions width"], thought: Thought) -> Thought:
        """One update of `z_L`."""
        return Thought(thought.high, self.through_blocks(thought.low + thought.high + seen))

    @final
    def rethink(self, thought: Thought) -> Thought:
        """One update of `z_H`."""
        return Thought(self.through_blocks(thought.high + thought.low), thought.low)


@final
class RecursiveNetwork(RecursiveActorCritic):
    """One small stack of blocks, applied repeatedly to two states of every position. No memory.

    Positions are the flat features (first) and the cells of the board, row by row. A cycle of
    `z_H` is `low_cycles` times `z_L <- f(z_L + z_H + x)`, then `z_H <- f(z_H + z_L)`, where `f` is
    the stack and `x` the embedded features. Only the last cycle of `z_H` has a gradient. Each
    observation resets both states.

        network = hm.RecursiveNetwork(environment.spec, key=key)
        longer = network.with_cycles(6, 4)      # nothing is compiled again

    A sequence of tokens is a board of one row: see `TokenFeatures` of `hackmatrix_rl.env`.

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Linear  #: From the features of a cell to its vector.
    flat: Linear  #: From the flat features to their vector.
    first: Float[Array, " width"]  #: Added to the vector of the flat features; starts at 0.
    start: NonTrainable
    blocks: Callable[[Array], Array]
    cycles: Cycles
    gradient_cycles: int = eqx.field(static=True)
    tokens: ActionTokens  #: Of the actions that concern no cell.
    embeddings: ActionEmbeddings  #: Of all actions.
    heads: Heads

    def __init__(
        self,
        spec: EnvSpec,
        *,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
        mixer: str = "attention",
        high_cycles: int = 3,
        low_cycles: int = 4,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights.

        Args:
            spec: the spec of the environment, whose features need a grid.
            width: size of each vector; a multiple of `2 * heads`.
            depth: blocks of the stack.
            heads: heads of attention.
            mixer: the layer that mixes positions, one of `MIXERS`: `attention` with rotary
                position embeddings, or `swiglu` over positions.
            high_cycles: updates of `z_H`.
            low_cycles: updates of `z_L` before each of them.
            key: source of randomness for the weights.

        Raises:
            TypeError: a number of cycles is no whole number.
            ValueError: the environment has no grid, a number is less than 1, `width` is not a
                multiple of `2 * heads`, or there is no such mixer.
        """
        check_recursion(width, depth, heads, mixer)
        self.cycles = Cycles.of(high_cycles, low_cycles)
        rows, cols, channels, num_flat = feature_sizes(spec)
        keys = iter(jax.random.split(key, 8))
        self.encode = spec.encode
        # A binary feature selects a row of the weight as its embedding, whose numbers have a
        # standard deviation of 1, as the states have.
        self.cell = Linear(channels, width, std=1.0, key=next(keys))
        self.flat = Linear(num_flat, width, std=1.0, key=next(keys))
        self.first = jnp.zeros((width,), jnp.float32)
        self.start = drawn_start(width, key=next(keys))
        sizes = 1 + rows * cols, width, depth, heads
        self.blocks = recursive_blocks(*sizes, mixer, key=next(keys))
        self.gradient_cycles = low_cycles
        self.tokens = ActionTokens(spec, width, key=next(keys))
        self.embeddings = ActionEmbeddings(spec, width, key=next(keys))
        self.heads = ActionHeads(width, spec.num_actions, key=next(keys))

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        seen = self.embed(observation)
        hidden = self.think(seen, self.begin(seen)).high
        return (
            self.embeddings(observation, hidden[0], hidden[1:], self.tokens(observation)),
            carry,
        )

    def embed(self, observation: PyTree[Array]) -> Float32[Array, "positions width"]:
        """The vector of each position: of the flat features, then of the cells."""
        features = self.encode(observation)
        assert features.grid is not None  # checked at construction
        cells = self.cell.full(features.grid.reshape(-1, features.grid.shape[-1]))
        flat = self.flat.full(features.flat) + self.first.astype(jnp.float32)
        return jnp.concatenate([flat[None], cells])
