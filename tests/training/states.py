"""Training states compared bit for bit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def arrays(tree):
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    raw = [
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in leaves
    ]
    return [np.array(leaf) for leaf in raw]


def assert_same(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)
