"""Where chance has a hand in it, outcomes come as often as the original gave them.

The significance is that of `game.statistics`: 1 in 1,000 for a whole test, whatever the number
of positions and questions. The keys are fixed: a test that passes passes again.
"""

import numpy as np
import pytest

from games.hackmatrix.recordings import load, report
from games.hackmatrix.sampling import deviations_from_recorded, deviations_of, recorded_answers

# The proof, with the programs that users run.
pytestmark = pytest.mark.usefixtures("optimized")


def test_outcomes_come_as_often_as_recorded(replay):
    lines = deviations_of(replay, draws=110, seed=1)
    assert not lines, report(lines)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [100_000, 200_000, 300_000])
def test_many_outcomes_come_as_often_as_recorded(replay, seed):
    lines = deviations_of(replay, draws=1200, seed=seed)
    assert not lines, report(lines)


def test_samples_of_the_recording_itself_pass():
    """The questions raise no alarm where nothing is wrong: draws from the recorded outcomes."""
    recording = load("chance")
    of, count = recording.other["outcome_of"], recording.other["outcome_count"]
    rng = np.random.default_rng(0)
    for _ in range(3):
        draws = np.concatenate(
            [
                rng.choice(np.flatnonzero(of == position), 110, p=count[of == position] / 600)
                for position in range(len(recording))
            ]
        )
        answers = {name: labels[draws] for name, labels in recorded_answers().items()}
        lines = deviations_from_recorded(answers, of[draws])
        assert not lines, report(lines)
