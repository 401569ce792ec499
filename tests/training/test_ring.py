"""A ring against a plain list: it holds the newest entries, and says where the oldest is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.training import advance_ring, empty_ring, oldest_slot, write_ring

ENVS, LENGTH, COUNT = 2, 12, 3


@eqx.filter_jit
def written(ring, slot, filled, entries):
    return write_ring(ring, entries, slot), *advance_ring(slot, filled, COUNT, LENGTH)


def test_a_ring_holds_the_newest_entries_from_the_oldest_on():
    entry = {"one": jax.ShapeDtypeStruct((), jnp.int32), "two": jnp.ones(2, jnp.float16)}
    ring = empty_ring(entry, ENVS, LENGTH)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype.name), ring) == {
        "one": ((ENVS, LENGTH), "int32"),
        "two": ((ENVS, LENGTH, 2), "float16"),
    }
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(ring))
    slot = filled = jnp.int32(0)
    for number in range(2 * LENGTH // COUNT + 1):
        one = jnp.asarray(
            [100 * env + np.arange(number * COUNT, (number + 1) * COUNT) for env in range(ENVS)],
            jnp.int32,
        )
        two = jnp.stack([one, -one], axis=-1).astype(jnp.float16)
        ring, slot, filled = written(ring, slot, filled, {"one": one, "two": two})
        everything = np.arange((number + 1) * COUNT)
        assert int(filled) == len(everything[-LENGTH:])
        order = (int(oldest_slot(slot, filled, LENGTH)) + np.arange(int(filled))) % LENGTH
        for env in range(ENVS):
            newest = everything[-LENGTH:] + 100 * env
            assert ring["one"][env, order].tolist() == newest.tolist()
            assert ring["two"][env, order].tolist() == [[each, -each] for each in newest]
