"""The buffer against plain Python: what is learned, and from which positions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from env.mirror import Mirror

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.self_play._buffer import Buffer, outcomes_of
from hackmatrix_rl.algorithms.self_play._games import Moves, Results
from hackmatrix_rl.env import VertexPermutations
from hackmatrix_rl.games.clique import from_edges

from .building import FIVE, solution

pytestmark = pytest.mark.search

GAMES, LENGTH, COUNT = 4, 12, 3


def plain_outcomes(reward, ended):
    """The value of each move whose game ended, else None."""
    values = [None] * len(reward)
    for end in np.flatnonzero(ended):
        value, at = reward[end], end
        while at >= 0 and (at == end or not ended[at]):
            values[at] = value
            value, at = -value, at - 1
    return values


def random_results(seed, shape):
    random = np.random.default_rng(seed)
    ended = random.random(shape) < 0.25
    reward = np.where(ended, random.integers(-1, 2, shape), 0).astype(np.float32)
    return reward, ended


@pytest.mark.parametrize("seed", range(4))
def test_values_go_back_from_the_end_of_each_game_with_the_sign_in_turns(seed):
    reward, ended = random_results(seed, (5, 14))
    ended[4], reward[4] = False, 0
    found = outcomes_of(jnp.asarray(reward), jnp.asarray(ended))
    for game in range(5):
        expected = plain_outcomes(reward[game], ended[game])
        known = [value for value in expected if value is not None]
        assert int(found.known[game]) == len(known)
        assert expected[len(known) :] == [None] * (14 - len(known))
        assert found.value[game, : len(known)].tolist() == known
    assert int(found.known[4]) == 0


def numbered(start):
    """Moves whose observation tells game and time, and which end every fourth time."""
    times = np.arange(start, start + COUNT)
    observation = np.stack([1000 * game + times for game in range(GAMES)]).astype(np.int32)
    ended = observation % 4 == 3
    return Moves(
        observation=jnp.asarray(observation),
        mask=jnp.ones((GAMES, COUNT, 2), bool),
        weights=jnp.full((GAMES, COUNT, 2), 0.5),
        reward=jnp.asarray(ended.astype(np.float32)),
        ended=jnp.asarray(ended),
    )


@eqx.filter_jit
def write(buffer, moves):
    return buffer.write(moves)


def filled(writes):
    spec = hm.EnvSpec(2, jax.ShapeDtypeStruct((), jnp.int32))
    buffer = Buffer.empty(spec, games=GAMES, length=LENGTH)
    for number in range(writes):
        buffer = write(buffer, numbered(number * COUNT))
    return buffer


@eqx.filter_jit
def drawn_from(buffer, keys, count=120, symmetry=None):
    return buffer.draw(buffer.outcomes(), count, symmetry, keys=keys)


@pytest.mark.parametrize("writes", [2, 4, 11])
@pytest.mark.parametrize("blocks", [4, 2])
def test_exactly_the_positions_of_finished_games_are_drawn_each_with_its_value(writes, blocks):
    buffer = filled(writes)
    drawn = drawn_from(buffer, jax.random.split(jax.random.key(writes), blocks))
    assert (drawn.valid == 1).all()
    seen = np.asarray(drawn.observation)
    newest = writes * COUNT - 1
    oldest = max(0, newest + 1 - LENGTH)
    times = [time for time in range(oldest, newest + 1) if time <= newest // 4 * 4 - 1]
    if newest % 4 == 3:
        times = list(range(oldest, newest + 1))
    assert set((seen % 1000).tolist()) == set(times)
    # An odd number of moves before the end is the other player's.
    assert drawn.value.tolist() == [1.0 if (3 - each % 4) % 2 == 0 else -1.0 for each in seen]
    size = GAMES // blocks
    for block, games in enumerate((seen // 1000).reshape(blocks, -1).tolist()):
        assert len(set(games)) == 1, "a block gives one game"
        assert games[0] // size == block


def test_what_is_drawn_is_changed_with_its_mask_and_its_weights():
    """What is seen has the sign of the only legal move, and of its weight."""
    buffer = filled(5)
    right = buffer.moves.observation % 2
    buffer = eqx.tree_at(
        lambda x: (x.moves.observation, x.moves.mask, x.moves.weights),
        buffer,
        (2 * right - 1, jax.nn.one_hot(right, 2) == 1, 0.7 * jax.nn.one_hot(right, 2)),
    )
    keys = jax.random.split(jax.random.key(6), GAMES)
    plain, changed = drawn_from(buffer, keys), drawn_from(buffer, keys, symmetry=Mirror())
    assert (plain.value == changed.value).all()
    assert 0.3 < (plain.observation == changed.observation).mean() < 0.7
    seen = np.asarray(changed.observation > 0).astype(int)
    np.testing.assert_array_equal(changed.mask, np.eye(2, dtype=bool)[seen])
    np.testing.assert_array_equal(changed.weights, 0.7 * np.eye(2, dtype=np.float32)[seen])


def test_without_the_end_of_a_game_nothing_counts():
    drawn = drawn_from(filled(1), jax.random.split(jax.random.key(0), GAMES))
    assert (drawn.valid == 0).all()


def test_results_are_counted_for_the_player_who_began():
    length = jnp.array([5, 6, 6, 7, 9, 4], jnp.int32)
    reward = jnp.array([1, 1, -1, 0, 1, 0], jnp.float32)
    ended = jnp.array([1, 1, 1, 1, 0, 0], bool)
    results = Results.from_moves(length, reward, ended)
    # First with move 5; second with move 6; first, as the second lost by move 6; a draw.
    assert vars(jax.tree.map(int, results)) == {
        "games": 4,
        "moves": 24,
        "first_wins": 2,
        "draws": 1,
    }


def test_renumbered_vertices_keep_the_value_of_every_move():
    table = solution(FIVE.config)
    random = np.random.default_rng(2)
    changed = set()

    @jax.jit
    def look(state, key):
        weights = table.action_values(state).astype(jnp.float32)
        mask = FIVE.legal(state)
        changed = VertexPermutations(5)(FIVE.observe(state), key=key)
        return mask, (changed.observation, changed.of_each(mask), changed.of_each(weights))

    values = jax.jit(lambda state: (table.action_values(state), FIVE.legal(state)))
    for trial in range(25):
        order = random.permutation(10)[: random.integers(6)]
        state = from_edges(FIVE.config, order[::2].tolist(), order[1::2].tolist())
        before, (seen, mask, weights) = look(state, jax.random.key(trial))
        mine, others = (np.flatnonzero(each).tolist() for each in (seen.own, seen.other))
        first, second = (mine, others) if seen.first else (others, mine)
        there, legal = values(from_edges(FIVE.config, first, second))
        assert mask.tolist() == legal.tolist()
        assert weights.tolist() == there.tolist()
        changed.add(before.tolist() != mask.tolist())
    assert changed == {True, False}


def test_only_a_clique_game_has_vertices():
    with pytest.raises(TypeError, match="VertexPermutations changes only"):
        VertexPermutations(5)(jnp.zeros(3), key=jax.random.key(0))
