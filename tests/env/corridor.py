"""A game whose start states are numbers."""

import jax
import jax.numpy as jnp

import hackmatrix_rl as hm


class Corridor(hm.SingleGame):
    """A corridor of 9 cells, from 0 to the end."""

    num_actions = 2

    def start(self, *, key):
        return jnp.int32(0)

    def observe(self, cell):
        return jax.nn.one_hot(cell, 9)

    def legal(self, cell):
        return jnp.ones(2, bool)

    def play(self, cell, action, *, key):
        after = jnp.clip(cell + jnp.where(action == 1, 1, -1), 0, 8)
        return hm.Played(after, jnp.where(after == 8, 1.0, 0.0), after == 8)


def reached(before, after):
    return (jnp.arange(8) == after.games) & (after.games > before.games)


CORRIDOR = hm.Batched(Corridor(), max_steps=12)
EASY_FIRST = jnp.arange(7, 0, -1, dtype=jnp.int32)
