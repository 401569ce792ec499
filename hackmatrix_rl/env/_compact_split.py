"""The split of the features of HackMatrix's compact observation.

Static features are what does not move on the board: 34 of the 48 channels, which change about once
in 20 steps. Enemies and transmissions are sparse: a board has about one of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from hackmatrix_rl.env._encoding import (
    CLASSIC_CHANNELS,
    SCREEN_CHANNELS,
    encode_cells,
    features_from_compact,
)
from hackmatrix_rl.env._observation import CELL, CompactObservation
from hackmatrix_rl.env._split import Columns, FeatureSplit

_FIELDS = {"content", "value", "spawn_count", "credits", "energy", "siphoned", "siphon_center"}
_BITS = np.uint32(sum(CELL[name].mask for name in _FIELDS))
_CHANNELS = CLASSIC_CHANNELS + SCREEN_CHANNELS
_IS_STATIC = tuple(
    {name for name, _ in channel.when} | {channel.field} - {None} <= _FIELDS
    for channel in _CHANNELS
)
_STATIC = tuple(each for each, static in zip(_CHANNELS, _IS_STATIC, strict=True) if static)
_SPARSE = tuple(each for each, static in zip(_CHANNELS, _IS_STATIC, strict=True) if not static)


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
    static = np.array(_IS_STATIC)
    return Columns(
        static=grid[:, :-1][:, static].ravel(),
        sparse=grid[:, :-1][:, ~static].ravel(),
        others=np.concatenate([grid[:, -1], every[features.grid.size :]]),
    )


COMPACT_SPLIT = FeatureSplit(
    encode=features_from_compact,
    seen=lambda observation: observation.grid & _BITS,
    static=lambda observation: encode_cells(observation.grid, _STATIC).ravel(),
    sparse=lambda observation: observation.grid & ~_BITS,
    show=lambda words: encode_cells(words, _SPARSE),
    others=_others,
    columns=_columns,
)
"""The split of the features that `features_from_compact` makes."""
