"""Distances, lines of fire and yields against plain loops over the 36 cells."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games.hackmatrix.positions import block_of, data, position
from hackmatrix_rl.env import Sight, compact_observation
from hackmatrix_rl.games.hackmatrix import (
    NUM_CELLS,
    UNREACHED,
    CellSet,
    Content,
    GameConfig,
    Program,
    cell_yields,
    distances,
    from_arrays,
    yields_of,
)

RESOURCE, QUESTION = {"credits": 2}, {"content": int(Content.HIDDEN_DATA), "value": 9}


def neighbours(cell):
    row, col = divmod(cell, 6)
    for up, right in ((1, 0), (-1, 0), (0, -1), (0, 1)):
        if 0 <= row + up < 6 and 0 <= col + right < 6:
            yield cell + 6 * up + right


def walked(start, free, barrier):
    found = {start: 0}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        if barrier[cell] and cell != start:
            continue
        for beside in neighbours(cell):
            if free[beside] and beside not in found:
                found[beside] = found[cell] + 1
                queue.append(beside)
    return [found.get(cell, UNREACHED) for cell in range(NUM_CELLS)]


@pytest.fixture(scope="module")
def boards():
    random = np.random.default_rng(0)
    size = 64
    start = random.integers(NUM_CELLS, size=size)
    share = random.uniform(0.3, 1.0, (size, 1))
    free = random.uniform(size=(size, NUM_CELLS)) < share
    barrier = random.uniform(size=(size, NUM_CELLS)) < 0.2
    return start, free, barrier


def test_distances_are_the_steps_of_shortest_paths(boards):
    @jax.jit
    @jax.vmap
    def both(start, free, barrier):
        start, free = CellSet.from_cell(start), CellSet.from_array(free)
        return distances(start, free), distances(start, free, barrier=CellSet.from_array(barrier))

    start, free, barrier = boards
    plain, barred = both(start.astype(np.int32), free, barrier)
    for game in range(len(start)):
        nothing = np.zeros(NUM_CELLS, bool)
        assert plain[game].tolist() == walked(start[game], free[game], nothing)
        assert barred[game].tolist() == walked(start[game], free[game], barrier[game])
    assert UNREACHED in np.asarray(plain)


SNAKE = (0, 6, 12, 18, 24, 30, 31, 32, 26, 27, 21, 15, 14, 8, 2, 3, 4, 10, 11, 17, 23, 29, 35, 34)
"""The longest path without a shortcut: no cell touches another one but the next."""


def test_the_longest_path_is_measured_to_its_end():
    free = np.zeros(NUM_CELLS, bool)
    free[list(SNAKE)] = True
    found = jax.jit(distances)(CellSet.from_cell(jnp.int32(0)), CellSet.from_array(jnp.array(free)))
    assert found[jnp.array(SNAKE)].tolist() == list(range(24))
    assert (found[~free] == UNREACHED).all()


@pytest.fixture(scope="module")
def board():
    cells = {
        (2, 2): data(5),
        (2, 4): block_of(Program.ROW, 2),
        (3, 3): QUESTION | {"spawn_count": 9},
        (1, 3): RESOURCE,
        (2, 3): {"energy": 3},
        (0, 3): RESOURCE | {"siphoned": 0},
        (4, 2): data(7) | {"siphoned": 1},
    }
    return jax.tree.map(lambda leaf: leaf[0], from_arrays(GameConfig(), position(cells=cells)))


def test_an_observation_tells_the_same_yields(board):
    @jax.jit
    def seen(position):
        observation = compact_observation(position)
        content = observation.plane("content")
        planes = ("value", "spawn_count", "credits", "energy")
        return cell_yields(
            data=content == Sight.DATA,
            program=content == Sight.PROGRAM,
            question=content == Sight.QUESTION,
            siphoned=observation.plane("siphoned") != 0,
            **{name: observation.plane(name) for name in planes},
        ), yields_of(position.board)

    told, known = seen(board.position)
    for name in vars(told):
        assert np.array_equal(getattr(told, name), getattr(known, name)), name
