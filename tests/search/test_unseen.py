"""What is drawn anew cannot be seen, and nothing that can be seen changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.positions import block_of, data, position, transmission, virus
from games.hackmatrix.recordings import CONFIG, load, rows

from hackmatrix_rl.env import compact_observation
from hackmatrix_rl.games.hackmatrix import Content, EnemyType, Program, from_arrays, to_arrays
from hackmatrix_rl.search import draw_unseen
from hackmatrix_rl.system.batching import Chance

pytestmark = pytest.mark.search

GAMES = 256
QUESTION = {"content": int(Content.HIDDEN_DATA), "value": 9, "spawn_count": 9}


@pytest.fixture(scope="module")
def draw():
    """Draws for `GAMES` positions, and what is seen before and after."""

    @jax.jit
    def of(games, seed):
        def one(game, key):
            drawn = draw_unseen(game.position, chance=Chance.from_key(key))
            return drawn, compact_observation(game.position), compact_observation(drawn)

        return jax.vmap(one)(games, jax.random.split(jax.random.key(seed), GAMES))

    return of


def planes(drawn):
    """Content, value and spawn_count of each cell."""
    return jax.vmap(lambda board: (board.content, board.value, board.spawn_count))(drawn.board)


def repeated(found):
    index = np.zeros(GAMES, np.int32)
    return from_arrays(CONFIG, rows(found, index))


def recorded():
    """Positions with question blocks, cryptogs and transmissions."""
    before = load("deterministic").before
    content = before["cells"][:, :, 0]
    questions = ((content == Content.HIDDEN_DATA) | (content == Content.HIDDEN_PROGRAM)).any(axis=1)
    cryptogs = (before["enemies"][:, :, 0] == EnemyType.CRYPTOG).any(axis=1)
    chosen = np.flatnonzero(questions | cryptogs | (before["num_transmissions"] > 0))
    return from_arrays(
        CONFIG, rows(before, chosen[np.linspace(0, len(chosen) - 1, GAMES).astype(int)])
    )


def same(one, other):
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_drawn_position_looks_the_same(draw, seed):
    games = recorded()
    drawn, before, after = draw(games, seed)
    assert same(before, after)
    assert not same(games.position.board, drawn.board)
    assert not same(games.position.transmissions, drawn.transmissions)
    assert not same(games.position.enemies, drawn.enemies), "some cryptog is hidden"


def test_where_all_is_seen_nothing_changes(draw):
    found = position(
        (0, 0),
        cells={(3, 3): block_of(Program.ROW), (2, 2): data(4)},
        enemies=[virus(4, 4), {**virus(0, 3), "type": int(EnemyType.CRYPTOG)}],
        transmissions=[transmission(5, 2)],
        show_activated=1,
    )
    games = repeated(found)
    assert same(draw(games, 0)[0], games.position)


def test_the_draw_depends_on_nothing_unseen(draw):
    """Games that look the same become the same."""
    variants = []
    for points, kind, cell in ((9, 0, (4, 4)), (1, 3, (2, 4)), (5, 1, (5, 1))):
        hidden = {**virus(*cell), "type": int(EnemyType.CRYPTOG)}
        hidden |= {"last_known_row": 3, "last_known_col": 3}
        found = position(
            (0, 0),
            cells={(3, 3): QUESTION | {"value": points, "spawn_count": points}},
            enemies=[virus(0, 4), hidden],
            transmissions=[transmission(5, 5 - 1, EnemyType(kind))],
        )
        variants.append(draw(repeated(found), 7)[0])
    assert same(variants[0], variants[1])
    assert same(variants[0], variants[2])


def test_contents_are_distributed_as_in_a_new_stage(draw):
    cells = {(row, col): QUESTION for row in (1, 3) for col in (1, 4)}
    cells[2, 2] = block_of(Program.CRASH, 6)
    drawn, _, _ = draw(repeated(position((0, 0), cells=cells)), 3)
    board = to_arrays(repeated(position((0, 0), cells=cells)))["cells"]
    asked = np.flatnonzero(board[0, :, 0] == Content.HIDDEN_DATA)
    content, value = (np.asarray(plane)[:, asked] for plane in planes(drawn)[:2])
    data_ = content == Content.HIDDEN_DATA
    assert abs(data_.mean() - 0.5) < 0.06
    assert set(value[data_]) == set(range(1, 10))
    programs = np.where(data_, -1 - np.arange(4), value)
    assert set(value[~data_]) == set(range(23)) - {Program.CRASH}, "CRASH lies elsewhere"
    assert all(len(set(row)) == 4 for row in programs), "no program lies twice"


def test_reduced_spawns_stay_reduced(draw):
    cells = {(3, 3): QUESTION, (1, 1): data(6) | {"spawn_count": 4}}
    drawn, _, _ = draw(repeated(position((0, 0), cells=cells)), 5)
    content, value, spawns = (np.asarray(plane)[:, 3 * 6 + 3] for plane in planes(drawn))
    data_ = content == Content.HIDDEN_DATA
    assert np.array_equal(spawns[data_], np.maximum(value[data_] - 2, 0))


def test_types_are_uniform_and_a_hidden_cryptog_is_near_where_it_was_last_seen(draw):
    found = position((0, 0), transmissions=[transmission(row, 3) for row in range(1, 6)])
    kinds = np.asarray(draw(repeated(found), 1)[0].transmissions.type)[:, :5]
    shares = [(kinds == kind).mean() for kind in range(4)]
    assert np.abs(np.array(shares) - 0.25).max() < 0.05
    hidden = {**virus(4, 4), "type": int(EnemyType.CRYPTOG)}
    hidden |= {"last_known_row": 5, "last_known_col": 5}
    drawn, _, _ = draw(repeated(position((0, 0), enemies=[hidden])), 2)
    cells = np.asarray(drawn.enemies.cell)[:, 0]
    assert set(cells) == {row * 6 + col for row in (3, 4, 5) for col in (3, 4, 5)}
    assert jnp.all(drawn.enemies.last_known[:, 0] == 35)
