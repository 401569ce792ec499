"""Games that begin anew, and where they begin."""

import equinox as eqx
import jax
import numpy as np

from hackmatrix_rl.algorithms.self_play import Search
from hackmatrix_rl.algorithms.self_play._games import Games, begin, play_moves

from .building import FIVE, opinion

KEYS = jax.random.split(jax.random.key(0), 64)


@eqx.filter_jit
def begun(opening, keys):
    return jax.vmap(lambda key: begin(FIVE, opening, key))(keys)


def test_a_game_begins_with_up_to_so_many_random_moves():
    states, length = begun(6, KEYS)
    assert set(length.tolist()) == {0, 1, 2, 3, 4, 5, 6}
    np.testing.assert_array_equal(states.moves, length)
    assert not states.over.any()
    assert len({words.tobytes() for words in np.asarray(states.adjacency)}) > 40
    states, length = begun(0, KEYS)
    assert not length.any()
    assert not states.adjacency.any()


def test_games_that_end_begin_anew_and_the_others_go_on():
    @eqx.filter_jit
    def play(games, number):
        policy = opinion(FIVE)
        return play_moves(Search(2), FIVE, policy, games, number, 12, opening=3)

    games = Games.start(FIVE, KEYS[:16], opening=3)
    after, moves, results = play(games, jax.numpy.int32(0))
    ended, seen = np.asarray(moves.ended), np.asarray(moves.mask).sum(axis=2)
    np.testing.assert_array_equal(seen[:, 0], 10 - np.asarray(games.states.moves))
    goes_on = ~ended[:, :-1]
    np.testing.assert_array_equal(seen[:, 1:][goes_on], seen[:, :-1][goes_on] - 1)
    fresh = seen[:, 1:][~goes_on]
    assert set(fresh.tolist()) == {7, 8, 9, 10}
    np.testing.assert_array_equal(after.length, after.states.moves)
    assert not after.states.over.any()
    assert int(results.games) == ended.sum() > 10
    # The number of edges that were free before the last move tells who made it.
    by_first = seen[ended] % 2 == 0
    reward = np.asarray(moves.reward)[ended]
    first = np.where(by_first, reward, -reward)
    assert (int(results.first_wins), int(results.draws)) == ((first == 1).sum(), (first == 0).sum())
    assert int(results.moves) == (11 - seen[ended]).sum()
    later, other, _ = play(games, jax.numpy.int32(1))
    assert not np.array_equal(other.mask, moves.mask), "each update draws anew"
    assert not eqx.tree_equal(later.states, after.states)
