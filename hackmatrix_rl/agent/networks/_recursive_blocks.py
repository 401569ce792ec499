"""The stack of blocks that a recursive network applies repeatedly."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Key

from hackmatrix_rl.agent.networks._layers import self_attention
from hackmatrix_rl.agent.networks._names import MIXERS
from hackmatrix_rl.system.errors import counts

ROTARY_BASE = 10_000.0
WIDER = 3
"""The inner width of SwiGLU, as a multiple of its inputs: 1,536 for a width of 512."""


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
        self.weight = truncated(key, (inputs, outputs), inputs**-0.5 if std is None else std)

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        """Maps each row, in the dtype of the weights."""
        return x.astype(self.weight.dtype) @ self.weight

    def full(self, x: Float[Array, "*rows inputs"]) -> Float32[Array, "*rows outputs"]:
        """Maps each row, with sums and outputs in float32 for every dtype of the weights."""
        narrow = x.astype(self.weight.dtype)
        return jnp.matmul(narrow, self.weight, preferred_element_type=jnp.float32)


@partial(jax.jit, static_argnums=(1, 2))
def truncated(key: Key[Array, ""], shape: tuple[int, ...], std: float) -> Float32[Array, "*shape"]:
    """Samples a normal distribution truncated at two deviations, with standard deviation `std`."""
    return jax.random.truncated_normal(key, -2.0, 2.0, shape, jnp.float32) * (std / 0.87962566)


class SwiGLU(eqx.Module):
    """A gated feed-forward layer, applied to each row.

    Source: Shazeer 2020, "GLU variants improve transformer".
    """

    widen: Linear  #: The gates, then the values that they multiply.
    narrow: Linear

    def __init__(self, width: int, *, key: Key[Array, ""]) -> None:
        widen_key, narrow_key = jax.random.split(key)
        self.widen = Linear(width, 2 * WIDER * width, key=widen_key)
        self.narrow = Linear(WIDER * width, width, key=narrow_key)

    def __call__(self, x: Float[Array, "*rows width"]) -> Float32[Array, "*rows width"]:
        gate, value = jnp.split(self.widen.full(x), 2, axis=-1)
        return self.narrow.full(jax.nn.silu(gate) * value)


class RotaryAttention(eqx.Module):
    """Self-attention with rotary position embeddings.

    Source: Su et al. 2021, "RoFormer: enhanced transformer with rotary position embedding".
    """

    ask: Linear  #: The projections to queries, keys and values of all heads, concatenated.
    answer: Linear  #: The output projection.
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: Key[Array, ""]) -> None:
        ask_key, answer_key = jax.random.split(key)
        self.ask = Linear(width, 3 * width, key=ask_key)
        self.answer = Linear(width, width, key=answer_key)
        self.heads = heads

    def __call__(self, x: Float[Array, "positions width"]) -> Float32[Array, "positions width"]:
        return self.answer.full(self_attention(self.ask(x), self.heads, rotated))


def rotated(x: Float[Array, "positions heads size"]) -> Float[Array, "positions heads size"]:
    """Rotates each pair `(i, i + size / 2)` by an angle proportional to the position."""
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
        self.layers = SwiGLU(positions, key=key)

    def __call__(self, x: Float[Array, "positions width"]) -> Float32[Array, "positions width"]:
        return self.layers(x.T).T


class RecursiveBlock(eqx.Module):
    """Mixes positions, then transforms each, with residual sums that are normalised (post-norm)."""

    mix: RotaryAttention | PositionMixer
    work: SwiGLU

    def __call__(self, x: Float32[Array, "positions width"]) -> Float32[Array, "positions width"]:
        x = normalized(x + self.mix(x))
        return normalized(x + self.work(x))


def check_recursion(width: int, depth: int, heads: int, mixer: str) -> None:
    """Raises a ValueError for invalid sizes or an unknown mixer."""
    counts(width=width, depth=depth, heads=heads)
    if width % (2 * heads):
        raise ValueError(
            f"width {width} is not a multiple of 2 * heads, {2 * heads} (rotary position "
            "embeddings rotate pairs)"
        )
    if mixer not in MIXERS:
        raise ValueError(f"unknown mixer {mixer!r}; choose one of {', '.join(MIXERS)}")


def recursive_blocks(
    positions: int, width: int, depth: int, heads: int, mixer: str, *, key: Key[Array, ""]
) -> Callable[[Array], Array]:
    """`depth` blocks as one module, each array with a leading axis of blocks."""

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
