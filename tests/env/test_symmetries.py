"""A turned game goes on as the original one, turned."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.env import NUM_SYMMETRIES, CompactObservation, compact_observation, turn
from hackmatrix_rl.env._symmetries import TURNED_ACTION, TURNED_CELL
from hackmatrix_rl.games.hackmatrix import (
    COLUMNS,
    NUM_ACTIONS,
    SIZE,
    Action,
    GameConfig,
    Program,
    from_arrays,
    legal_actions,
    play,
    to_arrays,
)
from hackmatrix_rl.games.hackmatrix import new_game as begin

CONFIG = GameConfig(max_enemies=8, max_transmissions=8, history=2)
SYMMETRIES = range(NUM_SYMMETRIES)
ROW, COL = int(Program.ROW), int(Program.COL)


def test_the_eight_form_a_group():
    for table in (TURNED_CELL, TURNED_ACTION):
        rows = {tuple(row) for row in table.tolist()}
        assert tuple(range(table.shape[1])) in rows, "one changes nothing"
        together = {
            tuple(table[one][table[other]].tolist())
            for one, other in itertools.product(SYMMETRIES, SYMMETRIES)
        }
        assert together == rows
    assert len({tuple(row) for row in TURNED_CELL.tolist()}) == NUM_SYMMETRIES


def turned_arrays(arrays, symmetry):
    """A position as `to_arrays` gives it, turned by hand: every place, and ROW and COL."""
    turned = {name: np.array(array) for name, array in arrays.items()}
    cells = TURNED_CELL[symmetry]
    exchange = symmetry % 2 == 1

    def places(table, row, col):
        there = table[:, row] >= 0
        cell = cells[np.where(there, table[:, row] * SIZE + table[:, col], 0)]
        table[:, row] = np.where(there, cell // SIZE, table[:, row])
        table[:, col] = np.where(there, cell % SIZE, table[:, col])

    for name, columns in COLUMNS.items():
        for each in columns:
            if each.endswith("row"):
                row, col = columns.index(each), columns.index(each.removesuffix("row") + "col")
                places(turned[name].reshape(-1, len(columns)), row, col)
    moved = np.empty_like(turned["cells"])
    moved[cells] = turned["cells"]
    if exchange:
        owned = turned["owned"]
        owned[[ROW, COL]] = owned[[COL, ROW]]
        content, value = (COLUMNS["cells"].index(name) for name in ("content", "value"))
        program = np.isin(moved[:, content], (2, 4)) & np.isin(moved[:, value], (ROW, COL))
        moved[program, value] = ROW + COL - moved[program, value]
    turned["cells"] = moved
    return turned


def turned_games(games, symmetry):
    batch = to_arrays(games)
    single = [
        turned_arrays({name: array[n] for name, array in batch.items()}, symmetry)
        for n in range(GAMES)
    ]
    return from_arrays(CONFIG, {name: np.stack([one[name] for one in single]) for name in batch})


@jax.jit
@jax.vmap
def look(game):
    return compact_observation(game.position, is_rare=True), legal_actions(CONFIG, game)


@jax.jit
@jax.vmap
def turn_all(seen, mask, action, symmetry):
    turned = turn(seen, symmetry)
    return turned.observation, turned.of_each(mask), turned.action(action)


@jax.jit
@jax.vmap
def advance(game, action, key):
    after, outcome = play(CONFIG, game, action, key=key)
    return after, outcome.completed


GAMES = 128


@pytest.fixture(scope="module")
def games():
    """Positions of random games in which the player owns all programs."""
    new = jax.jit(jax.vmap(lambda key: begin(CONFIG, key=key)))
    arrays = to_arrays(new(jax.random.split(jax.random.key(0), GAMES)))
    arrays["owned"] = np.broadcast_to(np.arange(1, len(Program) + 1, dtype=np.int8), (GAMES, 23))
    for name, number in {"credits": 30, "energy": 30, "hp": 3, "data_siphons": 3}.items():
        arrays["player"][:, COLUMNS["player"].index(name)] = number
    games = from_arrays(CONFIG, arrays)
    for step in range(6):
        keys = jax.random.split(jax.random.key(step + 1), GAMES)
        _, mask = look(games)
        games, _ = advance(games, chosen(mask, step), keys)
    # Arrays leave out the snapshots of UNDO: they become copies of the position, as in the turned.
    return from_arrays(CONFIG, to_arrays(games))


def chosen(mask, seed):
    lots = np.random.default_rng(seed).random((GAMES, NUM_ACTIONS))
    return jnp.asarray(np.where(np.asarray(mask), lots, -1).argmax(axis=1), jnp.int32)


def is_equal(one, other):
    """For each game, whether two batches of trees are the same."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    same = [(np.asarray(a) == np.asarray(b)).reshape(GAMES, -1).all(axis=1) for a, b in pairs]
    return np.all(same, axis=0)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_a_turned_game_looks_and_plays_as_the_turned_original(games, symmetry):
    other = turned_games(games, symmetry)
    symmetries = jnp.full(GAMES, symmetry, jnp.int32)
    seen, mask = look(games)
    action = chosen(mask, 99)
    turned_seen, turned_mask, turned_action = turn_all(seen, mask, action, symmetries)
    assert is_equal(look(other), (turned_seen, turned_mask)).all()

    keys = jax.random.split(jax.random.key(7), GAMES)
    after, completed = advance(games, action, keys)
    other_after, _ = advance(other, turned_action, keys)
    expected = turn_all(*look(after), action, symmetries)[:2]
    same = is_equal(look(other_after), expected)

    def quiet(games):
        """Nobody is there to decide between two ways, and nobody comes."""
        position = games.position
        return ~np.asarray(
            position.enemies.present.any(axis=1) | position.transmissions.present.any(axis=1)
        )

    drawn = np.isin(action, [Action.WARP, Action.POLY, Action.RESET, Action.HACK, Action.EXCH])
    certain = quiet(games) & quiet(after) & ~np.asarray(completed) & ~drawn
    assert certain.sum() > 10
    assert same[certain].all()
    assert same.mean() > 0.5, "ties and draws are the exception"


def test_an_observation_with_more_than_the_board_is_turned_in_its_board(games):
    class More(eqx.Module):
        board: CompactObservation
        clock: jax.Array

    seen = jax.tree.map(lambda leaf: leaf[0], look(games)[0])
    turned = turn(More(seen, jnp.int32(5)), jnp.int32(3)).observation
    assert int(turned.clock) == 5
    alone = turn(seen, jnp.int32(3)).observation
    jax.tree.map(np.testing.assert_array_equal, turned.board, alone)


def test_what_has_no_board_cannot_be_turned():
    with pytest.raises(TypeError, match="only boards of HackMatrix"):
        turn(jnp.zeros(4), jnp.int32(0))


def test_the_first_is_a_quarter_turn_the_fifth_a_mirror():
    assert Action(TURNED_ACTION[1, Action.RIGHT]) is Action.UP
    assert Action(TURNED_ACTION[4, Action.RIGHT]) is Action.LEFT
    assert Action(TURNED_ACTION[4, Action.UP]) is Action.UP
