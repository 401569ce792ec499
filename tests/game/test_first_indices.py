"""Where members of a large batch are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.batching._sparse import _MOST_PAIRED, first_indices
from hackmatrix_rl.game import GameConfig


@pytest.mark.parametrize("size", [40, 32 * _MOST_PAIRED, 32 * _MOST_PAIRED + 40])
def test_the_first_members_are_found_in_batches_of_any_size(size):
    members = np.asarray(jax.random.bernoulli(jax.random.key(0), 0.1, (size,)))
    where = np.flatnonzero(members)
    width = min(1000, size)
    found = np.asarray(first_indices(jnp.asarray(members), width))
    wanted = np.full(width, size)
    wanted[: len(where[:width])] = where[:width]
    np.testing.assert_array_equal(found, wanted)


def test_a_batch_of_millions_is_traced_without_pairs_of_its_words():
    shapes = jax.eval_shape(
        lambda members: first_indices(members, 8), jax.ShapeDtypeStruct((2**24,), bool)
    )
    assert shapes.shape == (8,)


@pytest.mark.parametrize("name", ["max_enemies", "max_transmissions"])
def test_room_for_more_things_than_a_draw_can_tell_apart_is_refused(name):
    assert getattr(GameConfig(**{name: 63}), name) == 63
    with pytest.raises(ValueError, match=f"{name} must be at most 63, not 64"):
        GameConfig(**{name: 64})
