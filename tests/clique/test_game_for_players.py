"""The clique game through the interfaces of environments."""

import jax
import jax.numpy as jnp
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.clique import CliqueConfig, from_edges, legal_actions
from hackmatrix_rl.env import CliqueGame

GAME = CliqueGame(CliqueConfig(5, 3))
KEY = jax.random.key(0)


def test_it_is_an_environment():
    hm.check_environment(hm.Batched(GAME))


def test_each_player_sees_the_board_as_the_other_would_with_swapped_colours():
    one = GAME.observe(from_edges(GAME.config, [0, 5], [7, 8]))
    swapped = GAME.observe(from_edges(GAME.config, [7, 8], [0, 5]))
    assert np.flatnonzero(one.own).tolist() == np.flatnonzero(swapped.other).tolist() == [0, 5]
    assert np.flatnonzero(one.other).tolist() == np.flatnonzero(swapped.own).tolist() == [7, 8]
    assert one.first
    second = GAME.observe(from_edges(GAME.config, [0, 5, 9], [7, 8]))
    assert np.flatnonzero(second.own).tolist() == [7, 8]
    assert not second.first


def test_who_wins_is_rewarded_and_who_loses_by_their_own_move_is_not():
    win = GAME.play(from_edges(GAME.config, [0, 1], [7, 8]), jnp.int32(4), key=KEY)
    assert (float(win.reward), bool(win.terminated)) == (1.0, True)
    breaker = CliqueGame(CliqueConfig(3, 3, "second-wins"))
    last = breaker.play(from_edges(breaker.config, [0], [1]), jnp.int32(2), key=KEY)
    assert (float(last.reward), bool(last.terminated)) == (-1.0, True)
    drawn = CliqueGame(CliqueConfig(3, 3))
    last = drawn.play(from_edges(drawn.config, [0], [1]), jnp.int32(2), key=KEY)
    assert (float(last.reward), bool(last.terminated)) == (0.0, True)


def test_an_illegal_move_ends_the_episode_without_reward():
    state = from_edges(GAME.config, [0], [])
    played = GAME.play(state, jnp.int32(0), key=KEY)
    assert (float(played.reward), bool(played.terminated)) == (0.0, True)
    assert (legal_actions(GAME.config, played.state) == GAME.legal(state)).all()
