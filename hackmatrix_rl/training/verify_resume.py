"""The proof that a resumed run is the run that was stopped."""

import numpy as np

from hackmatrix_rl.training.checkpoints.arrays import Stored


def first_difference(one: Stored, other: Stored) -> str | None:
    """The first leaf that is not bitwise the same, in words; `None` if all are.

    Args:
        one: arrays of a training state.
        other: those of another.
    """
    if one.arrays.keys() != other.arrays.keys():
        odd = sorted(one.arrays.keys() ^ other.arrays.keys())[0]
        return f"{odd} is in one of them only"
    if one.keys != other.keys:
        return "other random generators"
    for name, array in one.arrays.items():
        against = other.arrays[name]
        if array.dtype != against.dtype or array.shape != against.shape:
            return (
                f"{name}: {array.dtype}{list(array.shape)} against "
                f"{against.dtype}{list(against.shape)}"
            )
        # Bits, not values: a NaN is the same as itself, and -0 is not 0.
        bits, against_bits = (np.ascontiguousarray(x).view(np.uint8) for x in (array, against))
        if not np.array_equal(bits, against_bits):
            where = np.argmax(np.ravel(_differs(array, against)))
            index = np.unravel_index(int(where), array.shape)
            return f"{name}{list(map(int, index))}: {array[index]} against {against[index]}"
    return None


def _differs(array: np.ndarray, against: np.ndarray) -> np.ndarray:
    """Where two arrays differ in their bits."""
    size = array.dtype.itemsize
    bits, others = (
        np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, size)
        for x in (array, against)
    )
    return np.any(bits != others, axis=1)
