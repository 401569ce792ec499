"""`from_arrays` takes what is possible and refuses the rest, naming record and field."""

import inspect

import jax
import numpy as np
import pytest

from game.mutations import assert_names_a_field
from game.recordings import CONFIG, POSITION, canonical, differences, load, report, rows
from game.replay import BATCH
from hackmatrix_rl.game import NUM_PROGRAMS, GameConfig, from_arrays, to_arrays
from hackmatrix_rl.game._validation import LARGEST


def positions(count=5):
    """A few recorded positions with enemies and transmissions, to be spoilt."""
    before = load("observations").before
    busy = np.flatnonzero((before["num_enemies"] >= 3) & (before["num_transmissions"] >= 2))
    return {key: np.array(value) for key, value in rows(before, busy[:count]).items()}


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
    again = to_arrays(from_arrays(CONFIG, one))
    assert again["player"].shape == (8,)
    expected = canonical({key: value[None] for key, value in one.items()})
    got = canonical({key: np.asarray(value)[None] for key, value in again.items()})
    lines = differences(expected, got, np.array([-1]))
    assert not lines, report(lines)


def test_other_arrays_are_ignored():
    from_arrays(CONFIG, positions() | {"action": np.zeros(5, np.int8)})


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
        ("cells", (8, slice(0, 2)), (1, 10), "points of cells[8]"),
        ("cells", (8, slice(0, 2)), (3, 11), "points of cells[8]"),
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


def test_without_enemies_no_row_is_a_ghost():
    arrays = positions()
    arrays["num_enemies"][:] = 0
    arrays["enemies"][:] = -1
    states = from_arrays(CONFIG, arrays)
    assert not states.position.enemies.present.any()


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
    undo = load("undo")
    arrays = {key: np.array(value[:5]) for key, value in (undo.before | undo.top).items()}
    arrays[array][:, place] = LARGEST
    from_arrays(CONFIG, arrays)
    arrays[array][2, place] = LARGEST + 1
    with pytest.raises(ValueError, match=f"record 2: .* of {array} is 1000000001, not within 0"):
        from_arrays(CONFIG, arrays)


def test_the_largest_dtype_does_not_wrap_around():
    arrays = positions()
    arrays["enemies"] = arrays["enemies"].astype(np.uint64)
    arrays["enemies"][3, 0, 6:8] = 2**64 - 1  # -1 as an int64: no cell is known
    with pytest.raises(ValueError, match=rf"last_known row of enemies\[0\] is {2**64 - 1}, not"):
        from_arrays(CONFIG, arrays)


@pytest.mark.parametrize("things", ["enemies", "transmissions"])
def test_more_than_there_is_room_for_is_refused(things):
    config = GameConfig(max_enemies=2, max_transmissions=40, history=4)
    if things == "transmissions":
        config = GameConfig(max_enemies=40, max_transmissions=1, history=4)
    with pytest.raises(ValueError, match=f"record 0: num_{things}.*max_{things}"):
        from_arrays(config, positions())


def test_an_impossible_snapshot_is_refused():
    undo = load("undo")
    arrays = {key: np.array(value) for key, value in (undo.before | undo.top).items()}
    arrays["top_player"][17, 2] = 7
    with pytest.raises(ValueError, match="record 17: hp of top_player"):
        from_arrays(CONFIG, arrays)


@pytest.mark.parametrize("name", POSITION)
def test_a_missing_array_is_named(name):
    arrays = positions()
    del arrays[name]
    with pytest.raises(ValueError, match=name):
        from_arrays(CONFIG, arrays)


def test_other_shapes_lengths_and_fractions_are_refused():
    arrays = positions()
    arrays["cells"] = arrays["cells"][:, :35]
    with pytest.raises(ValueError, match="cells has shape"):
        from_arrays(CONFIG, arrays)
    arrays = positions()
    arrays["owned"] = arrays["owned"][:-1]
    with pytest.raises(ValueError, match="owned"):
        from_arrays(CONFIG, arrays)
    arrays = positions()
    arrays["player"] = arrays["player"].astype(np.float32)
    with pytest.raises(ValueError, match="player has dtype"):
        from_arrays(CONFIG, arrays)


@pytest.mark.parametrize("thing", [None, "text", [[1, 2], [3]], {"a": 1}, [[2**70]], 3])
def test_what_is_no_array_of_integers_is_named(thing):
    for name in ("player", "enemies"):
        with pytest.raises(ValueError, match=rf"^{name} (has|is not an array)"):
            from_arrays(CONFIG, positions() | {name: thing})


def test_arrays_without_names_are_refused():
    unchecked = inspect.unwrap(from_arrays)  # the tests' own check of types comes first
    with pytest.raises(TypeError, match="arrays must be a mapping"):
        unchecked(CONFIG, [positions()])


@pytest.mark.parametrize("name", [f"top_{name}" for name in POSITION])
def test_a_snapshot_with_an_array_missing_is_refused(name):
    undo = load("undo")
    arrays = undo.before | undo.top
    del arrays[name]
    with pytest.raises(ValueError, match=f"^{name} is missing"):
        from_arrays(CONFIG, arrays)


def test_snapshots_of_another_number_of_games_are_refused():
    undo = load("undo")
    with pytest.raises(ValueError, match="top_player has 7 records, player has 9"):
        from_arrays(CONFIG, rows(undo.before, np.arange(9)) | rows(undo.top, np.arange(7)))


def test_no_games_come_out_as_none_and_a_history_without_room_is_cut():
    none = to_arrays(from_arrays(CONFIG, rows(positions(), np.arange(0))))
    assert none["player"].shape == (0, 8)
    arrays = positions()
    arrays["game"][:, 11] = 149
    states = from_arrays(CONFIG, arrays)
    assert (np.asarray(states.history.count) == CONFIG.history).all()


@pytest.mark.parametrize("name", ["max_enemies", "max_transmissions", "history"])
@pytest.mark.parametrize("size", [0, -1, True])
def test_a_config_without_room_is_refused(name, size):
    with pytest.raises(ValueError, match=name):
        GameConfig(**{name: size})


def test_a_config_can_key_a_compiled_function():
    again = GameConfig(max_enemies=40, max_transmissions=40, history=8)
    assert hash(CONFIG) == hash(again)
    assert again == CONFIG
    assert all(
        isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(from_arrays(CONFIG, positions()))
    )
