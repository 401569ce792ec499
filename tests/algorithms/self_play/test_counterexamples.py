"""Full boards without a clique: found in matches and in training, and kept in a file."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.self_play import (
    RandomPlayer,
    Search,
    SelfPlay,
    _counterexamples,
    colourings_of,
)
from hackmatrix_rl.algorithms.self_play._counterexamples import (
    Counterexamples,
    KeepColourings,
    full_boards,
)
from hackmatrix_rl.algorithms.self_play._match import NO_MOVE, play_games
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.games.clique import (
    CliqueConfig,
    Colouring,
    find_clique,
    read_colourings,
    write_colourings,
)

from .building import FOUR, network

pytestmark = pytest.mark.search

KEYS = jax.random.split(jax.random.key(5), 200)
VARIANTS = [("draw", "form"), ("second-wins", "form"), ("draw", "avoid")]


def fail(note):
    raise AssertionError(note)


def colourings_of_four():
    """All full boards of 4 vertices without a triangle: 12 of 20."""
    found = set()
    for first in combinations(range(6), 3):
        sides = first, set(range(6)) - set(first)
        if not any(find_clique(4, side, 3) for side in sides):
            found.add(Colouring(4, 3, first))
    assert len(found) == 12
    return found


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
def test_random_games_find_every_colouring_of_four_vertices_and_nothing_else(variant):
    config = CliqueConfig(4, 3, *variant)
    record = play_games(RandomPlayer(), RandomPlayer(), CliqueGame(config), KEYS)
    found = colourings_of(config, record)
    assert len(found) == len(set(found))
    assert set(found) == colourings_of_four()
    full = (np.asarray(record.moves) != NO_MOVE).sum(axis=1) == 6
    draws = np.asarray(record.result) == 0
    if variant[0] == "draw":
        assert draws.sum() > len(found)
        assert (draws <= full).all()
    assert not colourings_of(config, jax.tree.map(lambda leaf: leaf[~full], record))


def trainer(config, file, mesh="data=1", **changes):
    game = CliqueGame(config)
    sizes = {
        "game_batch_size": 8,
        "moves_per_update": 4,
        "buffer_size": 96,
        "training_batch_size": 16,
        "train_steps": 1,
        **changes,
    }
    play = SelfPlay(game, network(game), search=Search(2), mesh=mesh, **sizes)
    kept = None if file is None else Counterexamples(file, config, note=fail)
    return hm.Trainer(play, hooks=[KeepColourings(config, kept)], updates_per_dispatch=2), kept


def drawn_in(buffer):
    """The full boards of a buffer that nobody won, in plain Python."""
    moves = jax.device_get(buffer.moves)
    found = set()
    for game, place in np.argwhere(moves.ended & (moves.reward == 0)):
        free = np.flatnonzero(moves.mask[game, place]).tolist()
        assert len(free) == 1
        own = set(np.flatnonzero(moves.observation.own[game, place]).tolist()) | set(free)
        other = set(np.flatnonzero(moves.observation.other[game, place]).tolist())
        first = own if moves.observation.first[game, place] else other
        found.add(Colouring(4, 3, tuple(first)))
    return found


def test_a_training_keeps_the_drawn_boards_of_each_dispatch(tmp_path):
    trains, kept = trainer(FOUR.config, tmp_path, mesh="data=2")
    expected = set()

    def look(trainer, metrics):
        expected.update(drawn_in(trainer.state.collector_state.buffer))

    trains.fit(60, key=jax.random.key(0), hooks=[look])
    assert len(expected) > 3
    assert set(read_colourings(kept.file)) == expected
    assert kept.line() == (
        f"{len(expected)} colourings of K_4 without a clique of 3: R(3, 3) > 4; kept in {kept.file}"
    )


def test_several_trainings_in_one_program_keep_the_boards_of_each(tmp_path):
    alone, kept = trainer(FOUR.config, tmp_path)
    each = hm.Population([alone.algorithm] * 2)
    together = hm.Trainer(each, hooks=alone.hooks, updates_per_dispatch=2)
    expected = [set(), set()]

    def look(trainer, metrics):
        for k, found in enumerate(expected):
            found.update(drawn_in(each.member(trainer.state, k).collector_state.buffer))

    together.fit(60, key=jax.random.split(jax.random.key(0), 2), hooks=[look])
    assert expected[0] != expected[1]
    assert set(read_colourings(kept.file)) == expected[0] | expected[1]


def test_a_win_by_the_full_board_is_kept_and_one_by_a_clique_is_not(tmp_path):
    config = CliqueConfig(4, 3, "second-wins")
    trains, kept = trainer(config, tmp_path)
    trains.fit(200, key=jax.random.key(0))
    found = set(read_colourings(kept.file))
    assert len(found) > 3
    assert found <= colourings_of_four()


def test_only_the_newest_moves_are_looked_at_and_only_some_boards_fetched(monkeypatch):
    trains, _ = trainer(FOUR.config, None)
    trains.fit(60, key=jax.random.key(0))
    buffer = trains.state.collector_state.buffer
    counts = [int(full_boards(FOUR.config, buffer, jnp.int32(n))[1].sum()) for n in (0, 1, 4, 12)]
    assert counts[0] == 0
    assert counts[0] <= counts[1] < counts[2] < counts[3]
    newest = (int(buffer.slot) - 1 - np.arange(4)) % 12
    drawn = np.asarray(buffer.moves.ended & (buffer.moves.reward == 0))
    assert counts[2] == drawn[:, newest].sum()
    monkeypatch.setattr(_counterexamples, "_AT_ONCE", 3)
    anew = _counterexamples.full_boards.__wrapped__
    first, valid = jax.jit(lambda: anew(FOUR.config, buffer, jnp.int32(12)))()
    assert first.shape == (3, 6)
    assert valid.all()


def test_a_file_is_taken_up_and_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_counterexamples, "MOST_KEPT", 5)
    some = sorted(colourings_of_four(), key=lambda each: each.first)
    write_colourings(tmp_path / "colourings.json", some[:2])
    kept = Counterexamples(tmp_path, FOUR.config, note=fail)
    assert kept.line().startswith("2 colourings of K_4")
    kept.add(some[1:3])
    assert read_colourings(kept.file) == tuple(some[:3])
    before = kept.file.stat().st_mtime_ns
    kept.add(some[:3])
    assert kept.file.stat().st_mtime_ns == before
    kept.add(some)
    assert len(read_colourings(kept.file)) == 5
    assert Counterexamples(tmp_path / "none", FOUR.config, note=fail).line() is None


@pytest.mark.parametrize("content", ["no JSON", "of another board"])
def test_a_file_that_cannot_be_taken_up_is_set_aside(tmp_path, content):
    file, notes = tmp_path / "colourings.json", []
    if content == "no JSON":
        file.write_text("{")
    else:
        write_colourings(file, [Colouring(5, 3, (0, 3, 4, 7, 9))])
    kept = Counterexamples(tmp_path, FOUR.config, note=notes.append)
    assert kept.line() is None
    assert not file.exists()
    assert "It is now colourings.json.damaged." in notes[0]
    kept.add(colourings_of_four())
    assert len(read_colourings(file)) == 12


def test_a_file_that_cannot_be_written_ends_no_training(tmp_path):
    notes = []
    kept = Counterexamples(tmp_path / "missing", FOUR.config, note=notes.append)
    kept.add(colourings_of_four())
    assert notes[0].startswith("could not keep a colouring without a clique: ")
