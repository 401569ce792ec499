"""Several numbers in a word, and bits of words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.env import CELL
from hackmatrix_rl.games.hackmatrix import NUM_CELLS, Board, CellSet, Enemies, Transmissions
from hackmatrix_rl.games.hackmatrix._board import CORNERS, inner_bits, inner_cells
from hackmatrix_rl.system.batching import fields

pytestmark = pytest.mark.smoke

LAYOUTS = {"board": Board.FIELDS, "enemies": Enemies.FIELDS, "transmissions": Transmissions.FIELDS}


@pytest.mark.parametrize("table", [*LAYOUTS.values(), CELL], ids=[*LAYOUTS, "observation"])
def test_fields_do_not_overlap(table):
    masks = [field.mask for field in table.values()]
    assert sum(masks) == np.bitwise_or.reduce(masks) <= 0xFFFFFFFF


def test_an_observation_has_the_board_in_place_and_fields_that_do_not_fit_are_refused():
    assert {name: CELL[name] for name in Board.FIELDS} == Board.FIELDS
    with pytest.raises(ValueError, match="33 bits"):
        fields(one=16, two=17)


def test_numbers_come_back_and_the_others_stay():
    rng = np.random.default_rng(0)
    values = {name: rng.integers(0, f.largest + 1, 50) for name, f in Enemies.FIELDS.items()}
    enemies = Enemies.from_fields(**values)
    changed = enemies.replace(jnp.arange(50) < 25, hp=1, cell=7)
    for name, field in Enemies.FIELDS.items():
        np.testing.assert_array_equal(field.read(enemies.words), values[name])
        expected = values[name].copy()
        if name in ("hp", "cell"):
            expected[:25] = 1 if name == "hp" else 7
        np.testing.assert_array_equal(field.read(changed.words), expected)


def test_cells_that_are_no_corners_fit_in_a_word():
    members = np.random.default_rng(0).random((40, NUM_CELLS)) < 0.5
    back = jax.vmap(lambda m: inner_cells(inner_bits(CellSet.from_array(m))).to_array())(members)
    members[:, list(CORNERS)] = False
    np.testing.assert_array_equal(back, members)
    every = inner_cells(jnp.uint32(0xFFFFFFFF))
    np.testing.assert_array_equal(np.flatnonzero(~every.to_array()), CORNERS)
