"""A symmetry so small that everybody sees what it does."""

import jax
import jax.numpy as jnp

from hackmatrix_rl.env import Changed, Symmetry


class Mirror(Symmetry):
    """Of each two positions, one stays; in the other left is right, for what is seen and done."""

    def __call__(self, observation, *, key):
        mirrored = jax.random.bernoulli(key)
        was = jnp.where(mirrored, jnp.array([1, 0]), jnp.array([0, 1])).astype(jnp.int32)
        return Changed(jnp.where(mirrored, -observation, observation), was)
