"""Games of pgx in this package."""

import sys

import jax
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import picture_of

pgx = pytest.importorskip("pgx")


@pytest.mark.parametrize("name", ["2048", "minatar-breakout"])
def test_a_game_of_pgx_keeps_the_contract(name):
    hm.check_environment(hm.from_pgx(name, max_steps=30), steps=40)


def test_its_mask_is_that_of_pgx():
    environment = hm.from_pgx("2048")
    keys = jax.random.split(jax.random.key(4), 5)
    state, timestep = environment.reset(keys)
    np.testing.assert_array_equal(timestep.mask, state.games.legal_action_mask)
    assert not np.asarray(timestep.mask).all()


def test_what_it_cannot_play_and_a_missing_pgx_are_refused_by_name(monkeypatch):
    with pytest.raises(ValueError, match="pgx has no game 'chss'; the nearest is chess; it"):
        hm.from_pgx("chss")
    with pytest.raises(ValueError, match="tic_tac_toe is a game of 2 players"):
        hm.from_pgx("tic_tac_toe")
    monkeypatch.setitem(sys.modules, "pgx", None)
    with pytest.raises(hm.ConfigError, match=r"from_pgx needs .*pip install '\.\[pgx\]'"):
        hm.from_pgx("2048")


@pytest.mark.parametrize(
    ("name", "shape"), [("2048", (500, 500, 3)), ("minatar-freeway", (10, 10, 3))]
)
def test_a_game_of_pgx_is_drawn_in_its_colours(name, shape):
    environment = hm.from_pgx(name, max_steps=3)
    state, _ = environment.reset(jax.random.split(jax.random.key(0), 1))
    picture = picture_of(environment, state)
    assert picture.shape == shape
    colours = {tuple(pixel) for pixel in picture.reshape(-1, 3).tolist()}
    assert len(colours) >= 3
    assert environment.title == name
