"""Which features of an environment last: they are the same for many steps in a row."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree, UInt32

from hackmatrix_rl.env.environment import Features
from hackmatrix_rl.env.observation import (
    CELL,
    CLASSIC_CHANNELS,
    SCREEN_CHANNELS,
    Channel,
    CompactObservation,
    encode_cells,
    features_from_compact,
)


@dataclass(frozen=True)
class Split:
    """The features of an observation in two parts.

    Attributes:
        channels: of the grid's channels, which last; the same in all cells. Nothing else does.
        seen: of observations (one, or a batch), the integers that alone decide these.
        lasting: from one observation to the features that last, in their order.
        others: likewise to all the rest.
    """

    channels: tuple[bool, ...]
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    lasting: Callable[[PyTree[Array]], Float32[Array, " lasting"]]
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]

    def columns(self, observation: PyTree[Array]) -> tuple[np.ndarray, np.ndarray]:
        """Where in `Features.ravel()` stand the features that last, and the others.

        Args:
            observation: one, whatever is seen on it.
        """
        features = jax.eval_shape(features_from_compact, observation)
        assert features.grid is not None
        cells = features.grid.size // len(self.channels)
        lasts = np.array(self.channels * cells + (False,) * features.flat.size)
        return np.flatnonzero(lasts), np.flatnonzero(~lasts)


def split_features(encode: Callable[[PyTree[Array]], Features]) -> Split | None:
    """The split of what an environment's `encode` gives; `None` if nothing is known to last.

    Of HackMatrix, what lies on the board and does not move lasts: it changes in one step of
    twenty, and is 34 of the 48 channels.
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
_OTHER_CHANNELS = tuple(channel for channel in _CHANNELS if not _lasts(channel))


def _seen(observation: CompactObservation) -> UInt32[Array, "*batch 36"]:
    return observation.grid & _LASTING_BITS


def _lasting(observation: CompactObservation) -> Float32[Array, " lasting"]:
    return encode_cells(observation.grid, _LASTING_CHANNELS).ravel()


def _others(observation: CompactObservation) -> Float32[Array, " others"]:
    features = features_from_compact(observation)
    assert features.grid is not None
    shown = encode_cells(observation.grid, _OTHER_CHANNELS)
    # The last channel is where the player stands.
    player = features.grid.reshape(shown.shape[0], -1)[:, -1:]
    return jnp.concatenate([jnp.concatenate([shown, player], axis=1).ravel(), features.flat])


_HACKMATRIX = Split((*map(_lasts, _CHANNELS), False), _seen, _lasting, _others)
