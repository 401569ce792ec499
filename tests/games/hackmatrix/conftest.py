"""What the tests of the game share: compiled functions, and what the recordings led to."""

from collections.abc import Callable
from functools import cache

import pytest

from games.hackmatrix.recordings import load
from games.hackmatrix.replay import Played, Replay, shared_replay


@pytest.fixture(scope="session")
def replay() -> Replay:
    """The game, compiled once for all tests."""
    return shared_replay()


@pytest.fixture(scope="session")
def replayed(replay: Replay) -> Callable[[str, int], Played]:
    """What the game makes of a recording's transitions, by file and seed of the keys."""

    @cache
    def run(name: str, seed: int) -> Played:
        recording = load(name)
        return replay.play(recording.before | recording.top, recording.action, seed)

    return run
