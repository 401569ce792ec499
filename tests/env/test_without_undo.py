"""Environments in which UNDO is never legal, beside others of the same batch."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.env import HackMatrix, whole_games
from hackmatrix_rl.games.hackmatrix import Action, GameConfig, Program, legal_actions, new_game

HALF = HackMatrix(observation="tactical", without_undo_share=0.5)


@pytest.fixture(scope="module")
def turned():
    """Four equal games whose player owns UNDO and a credit, before and after a turn."""
    game = new_game(GameConfig(), key=jax.random.key(0))
    player = replace(game.position.player, credits=jnp.int32(9))
    programs = jnp.uint32(1 << Program.UNDO)
    game = replace(game, position=replace(game.position, player=player, programs=programs))
    games = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), game)
    keys = jnp.stack([jax.random.key(1)] * 4)
    state, start = jax.jit(HALF.from_games)(games)
    move = jnp.argmax(legal_actions(GameConfig(), game)[:4]).astype(jnp.int32)
    return start, *jax.jit(HALF.step)(state, jnp.full(4, move), keys)


def test_undo_is_legal_in_the_other_half_alone(turned):
    _, state, after = turned
    assert after.mask[:, Action.UNDO].tolist() == [False, False, True, True]
    assert state.games.history.count.tolist() == [0, 0, 1, 1]
    others = np.delete(np.asarray(after.mask), Action.UNDO, axis=1)
    assert (others == others[0]).all()


def test_games_that_start_elsewhere_lose_their_snapshots_there(turned):
    games = jax.tree.map(lambda leaf: jnp.stack([leaf[3]] * 4), turned[1].games)
    _, begun = jax.jit(HALF.restart)(turned[1], games)
    assert begun.mask[:, Action.UNDO].tolist() == [False, False, True, True]


def test_the_player_sees_that_there_is_no_snapshot(turned):
    observation = turned[2].observation
    kept = [np.asarray(leaf) for leaf in jax.tree.leaves(observation)]
    assert any((leaf[0] != leaf[2]).any() for leaf in kept)
    assert all((leaf[0] == leaf[1]).all() and (leaf[2] == leaf[3]).all() for leaf in kept)


def test_only_games_by_the_rules_count(turned):
    start, _, after = turned
    for timestep in (start, after):
        assert timestep.episode.counts.tolist() == [False, False, True, True]


def test_evaluation_is_by_the_rules():
    assert whole_games(HALF) == replace(HALF, without_undo_share=0.0)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match=rf"without_undo_share .* in \[0, 1\], not {share}"):
        HackMatrix(without_undo_share=share)
