"""The split of the features of HackMatrix's compact observation.

Static features are what does not move on the board. They are 34 of the 48 channels and change
about once in 20 steps. Enemies and transmissions are sparse: a board has about one of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, UInt32

from hackmatrix_rl.env._encoding import (
    CLASSIC_CHANNELS,
    SCREEN_CHANNELS,
    Channel,
    encode_cells,
    features_from_compact,
)
from hackmatrix_rl.env._observation import CELL, CompactObservation
from hackmatrix_rl.env._split import Columns, FeatureSplit

_STATIC_FIELDS = (
    "content",
    "value",
    "spawn_count",
    "credits",
    "energy",
    "siphoned",
    "siphon_center",
)
_STATIC_BITS = np.uint32(sum(CELL[name].mask for name in _STATIC_FIELDS))
_CHANNELS = CLASSIC_CHANNELS + SCREEN_CHANNELS


def _is_static(channel: Channel) -> bool:
    fields = {name for name, _ in channel.when} | {channel.field} - {None}
    return fields <= set(_STATIC_FIELDS)


_STATIC_CHANNELS = tuple(channel for channel in _CHANNELS if _is_static(channel))
_SPARSE_CHANNELS = tuple(channel for channel in _CHANNELS if not _is_static(channel))


def _seen(observation: CompactObservation) -> UInt32[Array, "*batch 36"]:
    return observation.grid & _STATIC_BITS


def _static(observation: CompactObservation) -> Float32[Array, " static"]:
    return encode_cells(observation.grid, _STATIC_CHANNELS).ravel()


def _sparse(observation: CompactObservation) -> UInt32[Array, "*batch 36"]:
    return observation.grid & ~_STATIC_BITS


def _show(words: UInt32[Array, " some"]) -> Float32[Array, "some channels"]:
    return encode_cells(words, _SPARSE_CHANNELS)


def _others(observation: CompactObservation) -> Float32[Array, " others"]:
    features = features_from_compact(observation)
    assert features.grid is not None
    # The last channel is the player's cell.
    return jnp.concatenate([features.grid[..., -1].ravel(), features.flat])


def _columns(observation: CompactObservation) -> Columns:
    features = jax.eval_shape(features_from_compact, observation)
    assert features.grid is not None
    every = np.arange(features.grid.size + features.flat.size)
    grid = every[: features.grid.size].reshape(-1, len(_CHANNELS) + 1)
    static = np.array([*map(_is_static, _CHANNELS)])
    return Columns(
        static=grid[:, :-1][:, static].ravel(),
        sparse=grid[:, :-1][:, ~static].ravel(),
        others=np.concatenate([grid[:, -1], every[features.grid.size :]]),
    )


COMPACT_SPLIT = FeatureSplit(
    encode=features_from_compact,
    seen=_seen,
    static=_static,
    sparse=_sparse,
    show=_show,
    others=_others,
    columns=_columns,
)
"""The split of the features that `features_from_compact` makes."""
