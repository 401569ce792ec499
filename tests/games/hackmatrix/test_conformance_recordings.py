"""Where chance has no hand in it, play does what the original did: every record, every field."""

import numpy as np
import pytest

from games.hackmatrix.recordings import FLAGS, canonical, differences, load, report

# The proof, with the programs that users run.
pytestmark = pytest.mark.usefixtures("optimized")

FILES = ("deterministic", "undo")
SEEDS = (0, 1, 2)
"""Of the keys: without chance, the key changes nothing."""


@pytest.mark.parametrize("part", ["position", "flags", "terms"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_position_flags_and_reward_terms_are_the_recorded_ones(replayed, name, seed, part):
    recording, played = load(name), replayed(name, seed)
    if part == "position":
        expected, found = canonical(recording.after), canonical(played.position)
    else:
        names = FLAGS if part == "flags" else ("terms",)
        expected, found = {each: recording.other[each] for each in names}, played.outcome
    atol = 1e-5 if part == "terms" else 0.0
    lines = differences(expected, found, recording.action, atol=atol)
    assert not lines, report(lines)


@pytest.mark.parametrize("name", [*FILES, "completions", "chance", "observations"])
def test_the_legal_actions_are_the_recorded_ones(replay, name):
    recording = load(name)
    mask = replay.masks(recording.before | recording.top)
    action = recording.other.get("action", np.full(len(recording), -1))
    lines = differences({"mask": recording.other["mask"]}, {"mask": mask}, action)
    assert not lines, report(lines)


def test_the_recordings_have_every_action_and_every_end():
    recording = load("deterministic")
    legal = recording.other["legal"]
    undo = load("undo")
    actions = np.concatenate([recording.action[legal], undo.action[undo.other["legal"]]])
    chancy = load("chance").action
    assert set(actions) | set(chancy) == set(range(28))
    for flag in ("died", "won", "completed"):
        assert recording.other[flag].any()
    assert not legal.all()
