"""Games of pgx in this package."""

import sys

import jax
import numpy as np
import pytest

import hackmatrix_rl as hm

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
