"""Draws outcomes of the positions of chance.npz, and compares them with the recorded ones."""

from functools import cache

import numpy as np

from games.hackmatrix.outcomes import Labels, compare_outcomes, questions
from games.hackmatrix.recordings import FLAGS, load, rows
from games.hackmatrix.replay import BATCH, Replay
from games.hackmatrix.statistics import deviations


@cache
def recorded_answers() -> Labels:
    """The answers of every distinct recorded outcome."""
    recording = load("chance")
    outcome = {name: recording.other[name] for name in (*FLAGS, "terms")}
    before = rows(recording.before, recording.other["outcome_of"])
    return questions(before, recording.after, outcome)


def position_names() -> list[str]:
    """The positions by their number and action."""
    return [f"position {i} (action {action})" for i, action in enumerate(load("chance").action)]


def draw_answers(
    replay: Replay, positions: np.ndarray, draws: int, seed: int
) -> tuple[Labels, np.ndarray]:
    """Answers of `draws` outcomes of each position, and the position that each started from."""
    recording = load("chance")
    start = np.repeat(positions, draws)
    parts = []
    for number, first in enumerate(range(0, len(start), 4 * BATCH)):
        index = start[first : first + 4 * BATCH]
        before = rows(recording.before, index)
        played = replay.play(before, recording.action[index], seed + 101 * number)
        parts.append(questions(before, played.position, played.outcome))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, start


def deviations_from_recorded(answers: Labels, start: np.ndarray) -> list[str]:
    """What in some drawn outcomes does not fit the recorded ones."""
    recording = load("chance")
    tables = compare_outcomes(
        position_names(),
        recorded_answers(),
        recording.other["outcome_of"],
        recording.other["outcome_count"],
        answers,
        start,
    )
    return deviations(tables)


def deviations_of(replay: Replay, *, draws: int, seed: int) -> list[str]:
    """Plays each recorded position `draws` times and compares with what was recorded."""
    positions = np.arange(len(load("chance")))
    return deviations_from_recorded(*draw_answers(replay, positions, draws, seed))
