"""An observation as text, for environments without pictures."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

_MOST_NUMBERS, _MOST_SIDE, _MOST_LEAVES = 32, 40, 16
_BAR = 20  # characters
_CHANNELS = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def observed(observation: PyTree[Array]) -> str:
    """One observation as lines of text.

    A vector has one line per number. A board `[rows, columns, channels]` has one character per
    cell: the index, from 1, of its first nonzero channel. A larger array is summarised by its
    minimum, mean and maximum.
    """
    leaves = jax.tree.leaves_with_path(observation)
    parts = [_leaf(path, np.asarray(leaf)) for path, leaf in leaves[:_MOST_LEAVES]]
    if len(leaves) > _MOST_LEAVES:
        parts.append(f"and {len(leaves) - _MOST_LEAVES} more arrays")
    return "\n\n".join(parts)


def _leaf(path: Any, leaf: np.ndarray) -> str:
    head = f"observation{jax.tree_util.keystr(path)}: {leaf.dtype}{list(leaf.shape)}"
    return "\n".join([head, *_lines(leaf)])


def _lines(leaf: np.ndarray) -> list[str]:
    if not np.issubdtype(leaf.dtype, np.number) and leaf.dtype != bool:
        return []
    sides = leaf.shape[:2]
    if leaf.ndim <= 1 and leaf.size <= _MOST_NUMBERS:
        numbers = leaf.reshape(-1).astype(float)
        return [f"{place:3} {value:+12.4f}  {_bar(value)}" for place, value in enumerate(numbers)]
    if leaf.ndim == 2 and max(sides) <= _MOST_SIDE:
        leaf = leaf[:, :, None]
    few = leaf.ndim == 3 and max(sides) <= _MOST_SIDE and leaf.shape[2] <= len(_CHANNELS)
    if few and leaf.size:
        first = np.where((leaf != 0).any(-1), np.argmax(leaf != 0, -1), -1)
        return [
            "".join(f" {_CHANNELS[cell] if cell >= 0 else '.'}" for cell in row) for row in first
        ]
    if not leaf.size:
        return ["empty"]
    numbers = leaf.astype(float)
    return [f"least {numbers.min():g}, mean {numbers.mean():g}, largest {numbers.max():g}"]


def _bar(value: float) -> str:
    """A bar to the left or right of zero; values are clipped to [-1, 1]."""
    half = _BAR // 2
    length = min(half, round(abs(value) * half)) if np.isfinite(value) else 0
    left, right = ("#" * length, "") if value < 0 else ("", "#" * length)
    return f"{left:>{half}}|{right:<{half}}".rstrip()
