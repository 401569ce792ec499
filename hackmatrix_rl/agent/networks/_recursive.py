"""A tiny network that is applied to its own result again and again before it answers."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks._action_heads import ActionEmbeddings, ActionHeads, ActionTokens
from hackmatrix_rl.agent.networks._actor_critic import BlockActorCritic, TrunkOutput
from hackmatrix_rl.agent.networks._conv import grid_shape
from hackmatrix_rl.agent.networks._layers import Heads
from hackmatrix_rl.agent.precision import NonTrainable, accumulate_in_float32
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.errors import whole

R = TypeVar("R", bound="RecursiveActorCritic")

MIXERS = ("attention", "swiglu")
"""What lets positions see each other: attention with rotary positions, or SwiGLU over positions."""
ROTARY_BASE = 10_000.0
WIDER = 3
"""The inner width of SwiGLU, as a multiple of its inputs: 1,536 for a width of 512."""


class Thought(NamedTuple):
    """The two states of the recursion, each with a vector for every position.

    Attributes:
        high: `z_H`, the answer so far. The heads read it.
        low: `z_L`, the work on it.
    """

    high: Float32[Array, "*positions width"]
    low: Float32[Array, "*positions width"]


class Cycles(eqx.Module):
    """How often the network thinks. The numbers are data: a program serves all of them.

    Attributes:
        high: updates of `z_H`, at least 1.
        low: updates of `z_L` before each of them, at least 1.
    """

    high: Int32[Array, ""]
    low: Int32[Array, ""]

    @classmethod
    def of(cls, high: int, low: int) -> "Cycles":
        """These cycles.

        Raises:
            TypeError: one is no whole number.
            ValueError: one is less than 1.
        """
        counts = whole("high_cycles", high), whole("low_cycles", low)
        return cls(*(jnp.asarray(count, jnp.int32) for count in counts))


def normalized(x: Float[Array, "*rows width"]) -> Float32[Array, "*rows width"]:
    """Each vector divided by its root mean square, in float32.

    Source: Zhang and Sennrich 2019, "Root mean square layer normalization", without a scale.
    """
    full = x.astype(jnp.float32)
    return full * jax.lax.rsqrt(jnp.mean(full**2, axis=-1, keepdims=True) + 1e-5)


class Linear(eqx.Module):
    """A linear map without a bias, from a truncated normal distribution."""

    weight: Float[Array, "inputs outputs"]

    def __init__(
        self, inputs: int, outputs: int, *, std: float | None = None, key: Key[Array, ""]
    ) -> None:
        """Draws the weights, with standard deviation `std`; by default `inputs ** -0.5`."""
        self.weight = _truncated(key, (inputs, outputs), inputs**-0.5 if std is None else std)

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        """The map of each row, in the dtype of the weights."""
        return x.astype(self.weight.dtype) @ self.weight

    def full(self, x: Float[Array, "*rows inputs"]) -> Float32[Array, "*rows outputs"]:
        """The map of each row, summed and returned in float32 for every dtype of the weights."""
        narrow = x.astype(self.weight.dtype)
        return jnp.matmul(narrow, self.weight, preferred_element_type=jnp.float32)


@partial(jax.jit, static_argnums=(1, 2))
def _truncated(key: Key[Array, ""], shape: tuple[int, ...], std: float) -> Float32[Array, "*shape"]:
    """A normal distribution cut at two deviations; `std` is that after the cut."""
    return jax.random.truncated_normal(key, -2.0, 2.0, shape, jnp.float32) * (std / 0.87962566)


class SwiGLU(eqx.Module):
    """Two layers with a gate between them.

    Source: Shazeer 2020, "GLU variants improve transformer".
    """

    widen: Linear  #: The gate, then what it lets through.
    narrow: Linear

    def __init__(self, width: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights, for vectors of size `width`."""
        widen_key, narrow_key = jax.random.split(key)
        self.widen = Linear(width, 2 * WIDER * width, key=widen_key)
        self.narrow = Linear(WIDER * width, width, key=narrow_key)

    def __call__(self, x: Float[Array, "*rows width"]) -> Float32[Array, "*rows width"]:
        """The layers of each row."""
        gate, value = jnp.split(self.widen.full(x), 2, axis=-1)
        return self.narrow.full(jax.nn.silu(gate) * value)


class RotaryAttention(eqx.Module):
    """Attention of each position to all, whose products depend on the distance of positions.

    Source: Su et al. 2021, "RoFormer: enhanced transformer with rotary position embedding".
    """

    ask: Linear  #: Queries, keys and values of all heads, side by side.
    answer: Linear  #: From the heads' results to a vector.
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights."""
        ask_key, answer_key = jax.random.split(key)
        self.ask = Linear(width, 3 * width, key=ask_key)
        self.answer = Linear(width, width, key=answer_key)
        self.heads = heads

    def __call__(self, x: Float[Array, "positions width"]) -> Float32[Array, "positions width"]:
        """The attention output of each position."""
        count, width = x.shape
        asked = self.ask(x).reshape(count, 3, self.heads, width // self.heads)
        query, key, value = rotated(asked[:, 0]), rotated(asked[:, 1]), asked[:, 2]
        fits = jnp.einsum("ihd,jhd->hij", query, key, preferred_element_type=jnp.float32)
        shares = jax.nn.softmax(fits * (width // self.heads) ** -0.5, axis=-1)
        found = jnp.einsum("hij,jhd->ihd", shares.astype(value.dtype), value)
        return self.answer.full(found.reshape(count, width))


def rotated(x: Float[Array, "positions heads size"]) -> Float[Array, "positions heads size"]:
    """Each pair of numbers `(i, i + size / 2)` turned by an angle that grows with the position."""
    count, _, size = x.shape
    speed = ROTARY_BASE ** (-np.arange(size // 2) / (size // 2))
    angle = (np.arange(count)[:, None] * speed)[:, None]
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    one, other = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)
    return turned.astype(x.dtype)


class PositionMixer(eqx.Module):
    """SwiGLU over the positions of each number, in place of attention.

    Source: Tolstikhin et al. 2021, "MLP-Mixer".
    """

    layers: SwiGLU

    def __init__(self, positions: int, *, key: Key[Array, ""]) -> None:
        """Draws the weights, for so many positions."""
        self.layers = SwiGLU(positions, key=key)

    def __call__(self, x: Float[Array, "positions width"]) -> Float32[Array, "positions width"]:
        """The mixed positions."""
        return self.layers(x.T).T


class RecursiveBlock(eqx.Module):
    """Mixes positions, then works on each. Normalisation comes after each sum."""

    mix: RotaryAttention | PositionMixer
    work: SwiGLU

    def __call__(self, x: Float32[Array, "positions width"]) -> Float32[Array, "positions width"]:
        """The vectors after both parts."""
        x = normalized(x + self.mix(x))
        return normalized(x + self.work(x))


def check_recursion(width: int, depth: int, heads: int, mixer: str) -> None:
    """Raises a ValueError if there are no blocks of these sizes, or no such mixer."""
    if min(width, depth, heads) < 1 or width % (2 * heads):
        raise ValueError(
            "width, depth and heads must be at least 1, and width a multiple of 2 * heads "
            f"(rotary positions turn pairs), not {width}, {depth} and {heads}"
        )
    if mixer not in MIXERS:
        raise ValueError(f"unknown mixer {mixer!r}; choose one of {', '.join(MIXERS)}")


def drawn_start(width: int, *, key: Key[Array, ""]) -> NonTrainable:
    """The `Thought` of every position at the start. It is never trained."""
    starts = (_truncated(key, (width,), 1.0) for key in jax.random.split(key))
    return NonTrainable(Thought(*starts))


def recursive_blocks(
    positions: int, width: int, depth: int, heads: int, mixer: str, *, key: Key[Array, ""]
) -> Callable[[Array], Array]:
    """So many blocks as one module, each array with a leading axis of blocks."""

    def block(key: Key[Array, ""]) -> RecursiveBlock:
        mix_key, work_key = jax.random.split(key)
        mix = (
            RotaryAttention(width, heads, key=mix_key)
            if mixer == "attention"
            else PositionMixer(positions, key=mix_key)
        )
        return RecursiveBlock(mix, SwiGLU(width, key=work_key))

    blocks: Callable[[Array], Array] = eqx.filter_vmap(block)(jax.random.split(key, depth))
    return blocks


class RecursiveActorCritic(BlockActorCritic):
    """A network whose only stack of blocks is applied to two states again and again.

    A cycle of `z_H` is `low_cycles` times `z_L <- f(z_L + z_H + x)`, then `z_H <- f(z_H + z_L)`,
    where `f` is the stack and `x` the embedded observation. Only the last cycle of `z_H` has a
    gradient.

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".
    """

    start: eqx.AbstractVar[NonTrainable]  #: The `Thought` of every position at the start.
    cycles: eqx.AbstractVar[Cycles]  #: How often it thinks.
    #: The gradient goes through at most so many updates of `z_L`, the last ones.
    gradient_cycles: eqx.AbstractVar[int]

    @final
    def with_cycles(self: R, high_cycles: int, low_cycles: int) -> R:
        """The same network with other numbers of cycles, for a program compiled with any.

        The gradient goes through no more updates of `z_L` than in the network that was built.

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
        """All cycles, from some states. The gradient goes through the last cycle of `z_H` only."""
        still, seen_still, thought = without_gradient((self, seen, thought))
        # More updates than the gradient may go through: the first ones have none.
        before = jnp.maximum(self.cycles.low - self.gradient_cycles, 0)

        def whole_cycle(_: Int32[Array, ""], thought: Thought) -> Thought:
            return still.rethink(still.work(seen_still, thought, still.cycles.low))

        thought = jax.lax.fori_loop(0, self.cycles.high - 1, whole_cycle, thought)
        thought = still.work(seen_still, thought, before)
        return self.rethink(self.work_with_gradient(seen, thought, self.cycles.low - before))

    @final
    def work(
        self, seen: Float32[Array, "positions width"], thought: Thought, count: Int32[Array, ""]
    ) -> Thought:
        """So many updates of `z_L`, in a loop that has no gradient."""
        return jax.lax.fori_loop(0, count, lambda _, thought: self.rework(seen, thought), thought)

    @final
    def work_with_gradient(
        self, seen: Float32[Array, "positions width"], thought: Thought, count: Int32[Array, ""]
    ) -> Thought:
        """So many updates of `z_L`, at most `gradient_cycles`, in a loop that has a gradient."""
        wide, narrow = accumulate_in_float32(self)

        def update(thought: Thought, index: Int32[Array, ""]) -> tuple[Thought, None]:
            # A branch, not a choice between two results: what is left out takes no time.
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
    """One small stack of blocks, applied to two states of every position again and again.

    Positions are the flat features (first) and the cells of the board, row by row. A cycle of
    `z_H` is `low_cycles` times `z_L <- f(z_L + z_H + x)`, then `z_H <- f(z_H + z_L)`, where `f` is
    the stack and `x` the embedded features. Only the last cycle of `z_H` has a gradient. No memory:
    both states start anew for each observation.

        network = hm.RecursiveNetwork(environment.spec, key=key)
        longer = network.with_cycles(6, 4)      # nothing is compiled again

    A sequence of tokens is a board of one row: see `TokenFeatures` of `hackmatrix_rl.env`.

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Linear  #: From the features of a cell to its vector.
    flat: Linear  #: From the flat features to theirs.
    first: Float[Array, " width"]  #: Added to the vector of the flat features; starts at 0.
    start: NonTrainable  #: The `Thought` of every position at the start, drawn once.
    #: All blocks as one module, each array with a leading axis of blocks. Both states share them.
    blocks: Callable[[Array], Array]
    cycles: Cycles  #: How often it thinks.
    #: The gradient goes through at most so many updates of `z_L`, the last ones.
    gradient_cycles: int = eqx.field(static=True)
    tokens: ActionTokens  #: Of the actions that are about no cell.
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
            mixer: what lets positions see each other, one of `MIXERS`: `attention` with rotary
                positions, or `swiglu` over positions.
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
        features = jax.eval_shape(spec.encode, spec.observation)
        rows, cols, channels = grid_shape(features)
        keys = iter(jax.random.split(key, 8))
        self.encode = spec.encode
        # Of a feature that is 0 or 1, a row of the weight is the embedding: its numbers have a
        # deviation of 1, as those of the states.
        self.cell = Linear(channels, width, std=1.0, key=next(keys))
        self.flat = Linear(features.flat.size, width, std=1.0, key=next(keys))
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


def without_gradient(tree: PyTree) -> PyTree:
    """The tree, through whose arrays no gradient flows."""
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)
