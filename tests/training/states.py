"""Training states compared: bit for bit, or but for rounding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def arrays(tree):
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    assert leaves  # NumPy's are none: a comparison of nothing would pass
    raw = [
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in leaves
    ]
    return [np.array(leaf) for leaf in raw]


def assert_same(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_same_but_for_rounding(one, other, **tolerance):
    """Whole numbers, such as keys and steps of games, are the same."""
    for a, b in zip(arrays(one), arrays(other), strict=True):
        if np.issubdtype(a.dtype, np.floating):
            np.testing.assert_allclose(a, b, **tolerance)
        else:
            np.testing.assert_array_equal(a, b)


def assert_all_changed(one, other):
    """No array is what it was."""
    assert not any(map(np.array_equal, arrays(one), arrays(other)))


def assert_close(one, other, **tolerance):
    """The same structure, and numbers that differ by rounding alone."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
