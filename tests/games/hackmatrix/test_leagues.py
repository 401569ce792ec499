"""The two leagues: they differ only in what UNDO finds after a stage change."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games.hackmatrix.positions import position
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    GameConfig,
    Program,
    from_arrays,
    legal_actions,
    play,
)

UP, DOWN, LEFT, RIGHT = range(4)
UNDO = FIRST_PROGRAM + Program.UNDO
ORIGINAL = GameConfig(max_enemies=40, max_transmissions=40)
NO_REWIND = GameConfig(max_enemies=40, max_transmissions=40, rewind_across_stages=False)


@pytest.fixture(scope="module")
def leagues():
    """`play` of one game in each league, compiled once."""
    return {config.league: jax.jit(partial(play, config)) for config in (ORIGINAL, NO_REWIND)}


def owner_of_undo(config):
    """Two steps below the exit, with UNDO and its cost."""
    batch = from_arrays(
        config, position((3, 5), exit=(5, 5), programs=[Program.UNDO], credits=5, energy=5)
    )
    return jax.tree.map(lambda leaf: leaf[0], batch)


def walked(play_one, game, *actions):
    for action in actions:
        game, outcome = play_one(game, jnp.int32(action), key=jax.random.key(3))
        assert bool(outcome.legal)
    return game


@pytest.mark.parametrize(("config", "rewinds"), [(ORIGINAL, True), (NO_REWIND, False)])
def test_without_rewind_a_new_stage_clears_the_history(leagues, config, rewinds):
    play_one = leagues[config.league]
    game = walked(play_one, owner_of_undo(config), UP)
    assert bool(legal_actions(config, game)[UNDO])
    game = walked(play_one, game, UP)
    assert int(game.position.stage) == 2
    assert (int(game.history.count) > 0) == bool(legal_actions(config, game)[UNDO]) == rewinds


def test_nothing_else_differs(leagues):
    games = [owner_of_undo(ORIGINAL), owner_of_undo(NO_REWIND)]
    for turn, action in enumerate((LEFT, RIGHT, UP, UNDO, UP, DOWN, LEFT)):
        mask = [np.array(legal_actions(ORIGINAL, game)) for game in games]
        if int(games[0].position.stage) == 2:
            mask[0][UNDO] = mask[1][UNDO] = False
        np.testing.assert_array_equal(*mask)
        if mask[0][action]:
            key = jax.random.key(turn)
            games = [
                one(game, jnp.int32(action), key=key)[0]
                for one, game in zip(leagues.values(), games, strict=True)
            ]
        jax.tree.map(np.testing.assert_array_equal, *[game.position for game in games])
    assert int(games[0].position.stage) == 2


def test_the_environment_plays_the_league():
    environment = HackMatrix(NO_REWIND)
    game = owner_of_undo(NO_REWIND)
    state, _ = environment.from_games(jax.tree.map(lambda leaf: leaf[None], game))
    step = jax.jit(environment.step)
    for number in range(2):
        state, timestep = step(state, jnp.array([UP]), jax.random.split(jax.random.key(number), 1))
    assert int(timestep.episode.extra["stage"][0]) == 2
    assert not bool(timestep.mask[0, UNDO])
    assert bool(state.games.history.count[0] == 0)
