"""How an environment's features may be multiplied with less work than all of them take."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree, UInt32

from hackmatrix_rl.env import (
    CELL,
    CLASSIC_CHANNELS,
    SCREEN_CHANNELS,
    Channel,
    CompactObservation,
    Features,
    encode_cells,
    features_from_compact,
)


class Columns(NamedTuple):
    """Where in `Features.ravel()` each part of a split stands, in the part's own order."""

    static: np.ndarray
    sparse: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class Split:
    """The features of an observation in three parts.

    Those that last are the same for many steps in a row. Those of things are zero in most
    cells. All functions but `show` are of one observation; `seen` and `sparse` of a batch, too.

    Attributes:
        encode: all features, as the environment has them.
        seen: the integers that alone decide the features that last.
        lasting: the features that last.
        things: a word a cell that alone decides the cell's features of things; where it is 0
            these are 0.
        show: from such words of some cells to their features.
        others: all the rest.
        columns: where they stand; the same whatever is seen on the observation.
    """

    encode: Callable[[PyTree[Array]], Features]
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    static: Callable[[PyTree[Array]], Float32[Array, " lasting"]]
    sparse: Callable[[PyTree[Array]], UInt32[Array, "*batch cells"]]
    show: Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]
    columns: Callable[[PyTree[Array]], Columns]


def split_features(encode: Callable[[PyTree[Array]], Features]) -> Split | None:
    """The split of what an environment's `encode` gives; `None` if nothing is known of it.

    Of HackMatrix, what lies on the board and does not move lasts: it changes in one step of
    twenty, and is 34 of the 48 channels. Enemies and transmissions are the things: there is
    about one of them on a board.
    """
    return _HACKMATRIX if encode is features_from_compact else None


_LASTING = (
    "content",
    "value",
    "spawn_count",
    "credits",
    "energy",
    "siphoned",
    "siphon_center",
)
_LASTING_BITS = np.uint32(sum(CELL[name].mask for name in _LASTING))
_CHANNELS = CLASSIC_CHANNELS + SCREEN_CHANNELS


def _lasts(channel: Channel) -> bool:
    fields = {name for name, _ in channel.when} | {channel.field} - {None}
    return fields <= set(_LASTING)


_LASTING_CHANNELS = tuple(channel for channel in _CHANNELS if _lasts(channel))
_THING_CHANNELS = tuple(channel for channel in _CHANNELS if not _lasts(channel))


def _seen(observation: CompactObservation) -> UInt32[Array, "*batch 36"]:
    return observation.grid & _LASTING_BITS


def _lasting(observation: CompactObservation) -> Float32[Array, " lasting"]:
    return encode_cells(observation.grid, _LASTING_CHANNELS).ravel()


def _things(observation: CompactObservation) -> UInt32[Array, "*batch 36"]:
    return observation.grid & ~_LASTING_BITS


def _show(words: UInt32[Array, " some"]) -> Float32[Array, "some channels"]:
    return encode_cells(words, _THING_CHANNELS)


def _others(observation: CompactObservation) -> Float32[Array, " others"]:
    features = features_from_compact(observation)
    assert features.grid is not None
    # The last channel is where the player stands.
    return jnp.concatenate([features.grid[..., -1].ravel(), features.flat])


def _columns(observation: CompactObservation) -> Columns:
    features = jax.eval_shape(features_from_compact, observation)
    assert features.grid is not None
    every = np.arange(features.grid.size + features.flat.size)
    grid = every[: features.grid.size].reshape(-1, len(_CHANNELS) + 1)
    lasts = np.array([*map(_lasts, _CHANNELS)])
    return Columns(
        static=grid[:, :-1][:, lasts].ravel(),
        sparse=grid[:, :-1][:, ~lasts].ravel(),
        others=np.concatenate([grid[:, -1], every[features.grid.size :]]),
    )


_HACKMATRIX = Split(features_from_compact, _seen, _lasting, _things, _show, _others, _columns)
