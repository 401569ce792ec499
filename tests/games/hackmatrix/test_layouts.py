"""Layouts of a stage are drawn only for the games that need one."""

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.games.hackmatrix._board import CellSet
from hackmatrix_rl.games.hackmatrix._stage import BLOCKS, draw_layout
from hackmatrix_rl.system.batching import Chance


def test_no_game_draws_a_layout_that_it_does_not_need():
    def size(key, needed):
        nothing = CellSet.empty()
        chance = Chance.from_key(key)
        return draw_layout(
            jnp.int32(0), jnp.int32(35), nothing, chance=chance, needed=needed
        ).size()

    needed = np.arange(64) % 4 == 0
    sizes = jax.jit(jax.vmap(size))(jax.random.split(jax.random.key(0), 64), needed)
    assert (np.asarray(sizes)[~needed] == 0).all()
    drawn = np.asarray(sizes)[needed]
    assert ((drawn >= BLOCKS[0]) & (drawn <= BLOCKS[1])).all()
