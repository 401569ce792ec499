"""A stage is completed: what is carried over, and what the set-up of the next one draws."""

from functools import cache

import numpy as np
import pytest

from games.hackmatrix.new_game_features import features
from games.hackmatrix.recordings import (
    FLAGS,
    POSITION,
    Arrays,
    canonical,
    differences,
    load,
    report,
    rows,
)
from games.hackmatrix.replay import Played
from games.hackmatrix.setup_checker import setup_problems
from games.hackmatrix.statistics import compare_labels, deviations

# The proof, with the programs that users run.
pytestmark = pytest.mark.usefixtures("optimized")

SEEDS = (0, 1, 2)
WARP = 8
WARPS = 240
"""A WARP completes the stage only where chance sends it to the exit: so often it is tried."""


@pytest.fixture(scope="module")
def completed(replay):
    """Every recorded completion played until it is one again, by seed of the keys."""

    @cache
    def play(seed):
        recording = load("completions")
        times = np.where(recording.action == WARP, WARPS, 1)
        record = np.repeat(np.arange(len(recording)), times)
        played = replay.play(rows(recording.before, record), recording.action[record], seed)
        hits = np.flatnonzero(played.outcome["completed"])
        found, first = np.unique(record[hits], return_index=True)
        assert (found == np.arange(len(recording))).all(), "some never complete the stage"
        return Played(rows(played.position, hits[first]), rows(played.outcome, hits[first]))

    return play


def carried_transmissions(after: Arrays) -> np.ndarray:
    """A new stage spawns as many transmissions as its number; the others were there before."""
    return after["num_transmissions"].astype(int) - after["game"][:, 0]


def carried_over(position: Arrays, carried: np.ndarray) -> Arrays:
    """A position without what the set-up draws: the board, the exit, the new transmissions."""
    result = canonical(position)
    del result["cells"]
    result["game"][:, 2:4] = 0
    slot = np.arange(result["transmissions"].shape[1])
    result["transmissions"] = np.where(
        (slot < carried[:, None])[..., None], result["transmissions"], 0
    )
    return result


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_carried_over_is_as_recorded(completed, seed):
    recording = load("completions")
    carried = carried_transmissions(recording.after)
    lines = differences(
        carried_over(recording.after, carried),
        carried_over(completed(seed).position, carried),
        recording.action,
    )
    assert not lines, report(lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_flags_and_reward_terms_are_as_recorded(completed, seed):
    recording = load("completions")
    expected = {name: recording.other[name] for name in (*FLAGS, "terms")}
    lines = differences(expected, completed(seed).outcome, recording.action, atol=1e-5)
    assert not lines, report(lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_stage_obeys_section_3(completed, seed):
    carried = carried_transmissions(load("completions").after)
    lines = setup_problems(completed(seed).position, carried)
    assert not lines, report(lines)


def test_each_key_draws_another_stage(completed):
    boards = [completed(seed).position["cells"] for seed in SEEDS[:2]]
    assert (boards[0] != boards[1]).any(axis=(1, 2)).all()


def test_the_next_stages_are_distributed_as_recorded(completed):
    recording = load("completions")
    carried = carried_transmissions(recording.after)
    ours = [features(completed(seed).position, carried) for seed in SEEDS]
    tables = [
        compare_labels(name, "all", labels, np.concatenate([part[name] for part in ours]))
        for name, labels in features(recording.after, carried).items()
    ]
    lines = deviations([table for table in tables if table is not None])
    assert not lines, report(lines)


def test_the_checker_accepts_what_the_original_did():
    recording = load("completions")
    assert not setup_problems(recording.after, carried_transmissions(recording.after))
    assert not setup_problems(rows(load("new_games").before, np.arange(2000)))


@pytest.mark.parametrize(
    ("array", "place", "value", "word"),
    [
        ("game", 1, 3, "not reset"),
        ("game", 9, 5, "due"),
        ("game", 2, 3, "exit at"),
        ("cells", (0, 0), 1, "holds"),
        ("cells", (slice(1, 5), 0), 1, "connected"),
        ("cells", (slice(None), 1), 10, "no block at"),
        ("cells", (slice(None), 3), 0, "energy"),
        ("cells", (7, 5), 1, "siphoned"),
        ("transmissions", (0, 2), 2, "2 turns"),
        ("num_transmissions", (), 2, "transmissions on stage"),
    ],
)
def test_the_checker_rejects_what_breaks_the_rules(array, place, value, word):
    positions = {key: np.array(load("new_games").before[key][:200], copy=True) for key in POSITION}
    index = place if isinstance(place, tuple) else (place,)
    positions[array][(slice(None), *index)] = value
    lines = setup_problems(positions)
    assert any(word in line for line in lines), report(lines)
