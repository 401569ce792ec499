"""New games are distributed as the original's 20,000 recorded ones."""

import numpy as np
import pytest

from games.hackmatrix.new_game_features import features
from games.hackmatrix.recordings import load, report, rows
from games.hackmatrix.setup_checker import setup_problems
from games.hackmatrix.statistics import compare_labels, deviations

COUNT = 6144
"""Three batches: as many of the recorded games, and of ours, as the fast run looks at."""


def deviating(recorded, ours):
    labels = features(ours)
    tables = [
        compare_labels(name, "all", expected, labels[name])
        for name, expected in features(recorded).items()
    ]
    return deviations([table for table in tables if table is not None])


@pytest.fixture(scope="module")
def new_games(replay):
    return replay.new_games(COUNT, seed=0)


def test_new_games_have_the_recorded_distributions(new_games):
    lines = deviating(load("new_games").before, new_games)
    assert not lines, report(lines)


@pytest.mark.statistical
def test_many_new_games_have_the_recorded_distributions(replay):
    lines = deviating(load("new_games").before, replay.new_games(40960, seed=100))
    assert not lines, report(lines)


def test_new_games_obey_sections_2_and_3(new_games):
    lines = setup_problems(new_games)
    assert not lines, report(lines)


def test_new_games_begin_with_nothing_pending(new_games):
    player, game = new_games["player"], new_games["game"]
    assert (player[:, [2, 6, 7]] == [3, 0, 1]).all()
    bonuses = {tuple(bonus) for bonus in player[:, 3:6].tolist()}
    assert bonuses == {(10, 0, 0), (0, 11, 0), (0, 0, 1)}
    assert (game[:, [0, 1]] == [1, 0]).all()
    assert (game[:, [8, 9, 10, 11]] == [12, 12, 0, 0]).all()
    assert not new_games["owned"].any()
    assert not new_games["num_enemies"].any()


def test_the_same_key_gives_the_same_game(replay, new_games):
    again = replay.new_games(COUNT, seed=0)
    assert all((again[key] == new_games[key]).all() for key in again)


def test_layouts_drawn_without_asking_for_paths_are_noticed():
    """A set-up that also accepts layouts with cells cut off, but the rest right."""
    recorded = load("new_games").before
    mutant = rows(recorded, np.arange(COUNT))
    rng = np.random.default_rng(0)
    corners = np.isin(np.arange(36), (0, 5, 30, 35))
    cells = mutant["cells"].copy()
    for record in range(COUNT):
        inner = np.flatnonzero(~corners)
        cells[record, inner] = cells[record, rng.permutation(inner)]
    assert deviating(recorded, mutant | {"cells": cells})
