"""`from_arrays` takes what is possible and refuses the rest, naming record and field."""

import inspect
import itertools

import jax
import numpy as np
import pytest

from games.hackmatrix.mutations import assert_names_a_field
from games.hackmatrix.positions import data, position
from games.hackmatrix.recordings import (
    COLUMNS,
    CONFIG,
    POSITION,
    canonical,
    differences,
    load,
    report,
    rows,
)
from games.hackmatrix.replay import BATCH
from hackmatrix_rl.games.hackmatrix import (
    GIVEN_POINTS,
    NUM_PROGRAMS,
    SIPHON,
    GameConfig,
    from_arrays,
    to_arrays,
)
from hackmatrix_rl.games.hackmatrix._validation import LARGEST


def positions(count=5):
    """A few recorded positions with enemies and transmissions, to be spoilt."""
    before = load("observations").before
    busy = np.flatnonzero((before["num_enemies"] >= 3) & (before["num_transmissions"] >= 2))
    return {key: np.array(value) for key, value in rows(before, busy[:count]).items()}


def with_snapshots(count=5):
    """A few recorded positions with the snapshots that UNDO restores."""
    undo = load("undo")
    return {key: np.array(value[:count]) for key, value in (undo.before | undo.top).items()}


def change(name, how):
    """A change of one array."""
    return lambda arrays: arrays | {name: how(arrays[name])}


def without(name):
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def with_the_largest_number(arrays):
    """As an int64 it would be -1: no cell is known."""
    arrays["enemies"] = arrays["enemies"].astype(np.uint64)
    arrays["enemies"][3, 0, 6:8] = 2**64 - 1
    return arrays


@pytest.mark.parametrize("name", ["deterministic", "undo", "completions", "observations"])
def test_a_recorded_position_comes_out_as_it_went_in(name):
    recording = load(name)
    for first in range(0, len(recording), BATCH):
        part = rows(recording.before, (first + np.arange(BATCH)) % len(recording))
        again = to_arrays(from_arrays(CONFIG, part))
        lines = differences(canonical(part), canonical(again), np.full(BATCH, -1))
        assert not lines, report(lines)


def test_a_single_position_needs_no_batch_axis():
    one = {key: value[2] for key, value in positions().items()}
    state = from_arrays(CONFIG, one | {"other": np.int8(0)})  # which is ignored
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    again = to_arrays(state)
    assert again["player"].shape == (8,)
    expected = canonical({key: value[None] for key, value in one.items()})
    got = canonical({key: np.asarray(value)[None] for key, value in again.items()})
    lines = differences(expected, got, np.array([-1]))
    assert not lines, report(lines)


@pytest.mark.parametrize(
    ("array", "place", "value", "words"),
    [
        ("player", 0, 6, "row of player"),
        ("player", 1, -1, "col of player"),
        ("player", 2, 7, "hp of player"),
        ("player", 2, -1, "hp of player"),
        ("player", 3, -1, "credits of player"),
        ("player", 5, -1, "data_siphons of player"),
        ("game", 0, 9, "stage of game"),
        ("game", 0, 0, "stage of game"),
        ("game", 2, 6, "exit row of game"),
        ("game", 6, 2, "step_active of game"),
        ("game", 11, -1, "snapshots of game"),
        ("enemies", (1, 0), 4, "type of enemies[1]"),
        ("enemies", (2, 1), 6, "row of enemies[2]"),
        ("enemies", (0, 2), -1, "col of enemies[0]"),
        ("enemies", (0, 3), 4, "hp of enemies[0]"),
        ("enemies", (0, 3), 0, "hp of enemies[0]"),
        ("enemies", (0, 5), 2, "stunned of enemies[0]"),
        ("transmissions", (1, 0), 6, "row of transmissions[1]"),
        ("transmissions", (1, 3), -1, "type of transmissions[1]"),
        ("num_enemies", (), 41, "num_enemies"),
        ("num_transmissions", (), -1, "num_transmissions"),
        ("cells", (8, 0), 7, "content of cells[8]"),
        ("cells", (8, slice(0, 2)), (1, 16), "points of cells[8]"),
        ("cells", (8, slice(0, 2)), (3, 16), "points of cells[8]"),
        ("cells", (8, slice(0, 3)), (1, 9, 16), "spawn_count of cells[8]"),
        ("cells", (8, slice(0, 2)), (2, NUM_PROGRAMS), "program of cells[8]"),
        ("cells", (35, 3), 4, "credits of cells[35]"),
        ("cells", (35, 5), 2, "siphoned of cells[35]"),
        ("cells", (8, slice(0, 3)), (0, 5, 0), "value of cells[8] is 5"),
        ("cells", (8, slice(0, 3)), (0, 0, 5), "spawn_count of cells[8] is 5"),
        ("cells", (8, slice(0, 3)), (6, 0, 0), "content of cells[8] is 6"),
        ("game", 2, 3, "exit row of game is 3"),
        ("enemies", (0, slice(6, 8)), (-1, 3), "last_known col of enemies[0] is 3"),
    ],
)
def test_an_impossible_position_is_refused_by_record_and_field(array, place, value, words):
    spoilt = positions()
    where = place if isinstance(place, tuple) else (place,)
    spoilt[array][(3, *where)] = value
    with pytest.raises(ValueError, match="record 3: ") as error:
        from_arrays(CONFIG, spoilt)
    assert words in str(error.value)
    assert_names_a_field(str(error.value))


@pytest.mark.parametrize("filler", [-1, 99, 127, -128])
def test_rows_behind_the_last_thing_are_no_things(filler):
    arrays, clean = positions(), positions()
    for name in ("enemies", "transmissions"):
        for record, used in enumerate(arrays[f"num_{name}"]):
            arrays[name][record, used:] = filler
    again = to_arrays(from_arrays(CONFIG, arrays))
    lines = differences(canonical(clean), canonical(again), np.full(5, -1))
    assert not lines, report(lines)


@pytest.mark.parametrize(
    ("array", "place"),
    [
        *[("player", place) for place in range(3, 8)],
        *[("game", place) for place in (1, 7, 8, 9, 10, 11)],
        *[("top_player", place) for place in range(3, 8)],
        *[("top_game", place) for place in (0, 3)],
    ],
)
def test_what_nothing_bounds_is_bounded_so_that_no_move_wraps_around(array, place):
    arrays = with_snapshots()
    arrays[array][:, place] = LARGEST
    from_arrays(CONFIG, arrays)
    arrays[array][2, place] = LARGEST + 1
    with pytest.raises(ValueError, match=f"record 2: .* of {array} is 1000000001, not within 0"):
        from_arrays(CONFIG, arrays)


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [
        *itertools.product(["max_enemies", "max_transmissions", "history"], [0, -1, True], [""]),
        ("max_enemies", 64, "max_enemies must be at most 63, not 64"),
        ("max_transmissions", 64, "max_transmissions must be at most 63, not 64"),
    ],
)
def test_a_config_without_room_or_with_more_than_a_draw_can_tell_apart_is_refused(name, size, said):
    with pytest.raises(ValueError, match=said or name):
        GameConfig(**{name: size})


# No play reaches these, but a given position may hold them.
def test_a_cell_is_better_only_if_it_reaches_the_same_points(replay):
    def quality(points, *others, there=(3, 5)):
        """Of a siphon at (3, 2); a cell with more credits, (3, 4), reaches the blocks, too."""
        blocks = zip([(3, 3), (4, 4)], [points, *others], strict=False)
        cells = {cell: data(each) for cell, each in blocks} | {there: {"credits": 3}}
        before = position((3, 2), cells=cells, data_siphons=1)
        played = replay.play(before, np.array([SIPHON]), seed=0)
        names = COLUMNS["terms"].split()
        return played.outcome["terms"][0, names.index("siphon_quality")]

    for points in (0, 9, GIVEN_POINTS):
        assert quality(points) < 0
        assert quality(points, there=(0, 5)) == 0  # whose cross reaches no block
        for other in (0, 9, 10, GIVEN_POINTS):
            assert quality(points, other) == 0


def test_given_points_and_spawn_counts_above_those_of_any_block_are_played(replay):
    cells = {(3, 2): data(GIVEN_POINTS)}
    before = position((2, 2), cells=cells, data_siphons=1)
    lines = differences(
        canonical(before), canonical(to_arrays(from_arrays(CONFIG, before))), np.array([-1])
    )
    assert not lines, report(lines)
    after = replay.play(before, np.array([SIPHON]), seed=0).position
    assert after["player"][0, COLUMNS["player"].split().index("score")] == GIVEN_POINTS
    assert after["num_transmissions"][0] == 15
    siphoned = dict(zip(COLUMNS["cells"].split(), after["cells"][0, 3 * 6 + 2], strict=True))
    assert (siphoned["value"], siphoned["spawn_count"], siphoned["siphoned"]) == (15, 0, 1)


@pytest.mark.parametrize("thing", [None, "text", [[1, 2], [3]], {"a": 1}, [[2**70]], 3])
def test_what_is_no_array_of_integers_is_named(thing):
    for name in ("player", "enemies"):
        with pytest.raises(ValueError, match=rf"^{name} (has|is not an array)"):
            from_arrays(CONFIG, positions() | {name: thing})


def test_arrays_without_names_are_refused():
    unchecked = inspect.unwrap(from_arrays)  # the tests' own check of types comes first
    with pytest.raises(TypeError, match="arrays must be a mapping"):
        unchecked(CONFIG, [positions()])


def test_no_games_come_out_as_none_and_a_history_without_room_is_cut():
    none = to_arrays(from_arrays(CONFIG, rows(positions(), np.arange(0))))
    assert none["player"].shape == (0, 8)
    arrays = positions()
    arrays["game"][:, 11] = 149
    states = from_arrays(CONFIG, arrays)
    assert (np.asarray(states.history.count) == CONFIG.history).all()


REFUSED = {
    **{name: (without(name), name) for name in POSITION},
    "other shape": (change("cells", lambda x: x[:, :35]), "cells has shape"),
    "other length": (change("owned", lambda x: x[:-1]), "owned"),
    "fractions": (change("player", lambda x: x.astype(np.float32)), "player has dtype"),
    "largest dtype": (
        with_the_largest_number,
        rf"last_known row of enemies\[0\] is {2**64 - 1}, not",
    ),
}

REFUSED_WITH_SNAPSHOTS = {
    **{f"top_{name}": (without(f"top_{name}"), f"^top_{name} is missing") for name in POSITION},
    "impossible": (change("top_player", lambda x: x + 7), "record 0: .* of top_player"),
    "other length": (
        change("top_player", lambda x: x[:3]),
        "top_player has 3 records, player has 5",
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_arrays_that_are_no_positions_are_refused_by_name(how):
    spoil, said = REFUSED[how]
    with pytest.raises(ValueError, match=said):
        from_arrays(CONFIG, spoil(positions()))


@pytest.mark.parametrize("how", REFUSED_WITH_SNAPSHOTS)
def test_arrays_that_are_no_snapshots_are_refused_by_name(how):
    spoil, said = REFUSED_WITH_SNAPSHOTS[how]
    with pytest.raises(ValueError, match=said):
        from_arrays(CONFIG, spoil(with_snapshots()))


@pytest.mark.parametrize("things", ["enemies", "transmissions"])
def test_more_than_there_is_room_for_is_refused(things):
    room = {"max_enemies": 40, "max_transmissions": 40, "history": 4, f"max_{things}": 1}
    with pytest.raises(ValueError, match=f"record 0: num_{things}.*max_{things}"):
        from_arrays(GameConfig(**room), positions())
