"""Spaces and observations that both gymnasium environments have."""

from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from hackmatrix_rl.env import HackMatrix, Observation
from hackmatrix_rl.game import NUM_ACTIONS

Form = Literal["dict", "flat"]
Seen = dict[str, np.ndarray] | np.ndarray
_PARTS = ("player", "programs", "grid")
_MOST = 100.0
"""Above every number of the observation, most of which are at most 1 (rules, section 10)."""


def actions_of() -> spaces.Discrete[np.int64]:
    """The space of actions; each environment needs its own, since a space can be seeded."""
    return spaces.Discrete(NUM_ACTIONS)


def space_of(observation: Form) -> spaces.Space[Any]:
    """The space of observations of one game."""
    spec = HackMatrix(observation="classic").spec.observation
    parts: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(0.0, _MOST, getattr(spec, name).shape, np.float32) for name in _PARTS
    }
    if observation == "dict":
        return spaces.Dict(parts)
    if observation == "flat":
        size = sum(int(np.prod(part.shape or ())) for part in parts.values())
        return spaces.Box(0.0, _MOST, (size,), np.float32)
    raise ValueError(f"observation must be dict or flat, not {observation!r}")


def look(observed: Observation, form: Form) -> Seen:
    """The classic observation of a game or a batch, as NumPy arrays, in one of its forms."""
    parts = {name: np.asarray(getattr(observed, name)) for name in _PARTS}
    if form == "dict":
        return parts
    batch = parts["player"].shape[:-1]
    return np.concatenate([part.reshape(*batch, -1) for part in parts.values()], axis=-1)
