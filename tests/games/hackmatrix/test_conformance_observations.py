"""Every recorded position is seen as the original shows it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games.hackmatrix.recordings import CONFIG, differences, load, report, rows
from games.hackmatrix.replay import BATCH, shared_replay
from hackmatrix_rl.env import CELL, classic_from_compact, compact_observation, observe


@pytest.fixture(scope="module")
def seen():
    """The compact observation of every record, the classic one, and the one derived from it."""
    recording = load("observations")
    replay = shared_replay()
    look = jax.jit(
        jax.vmap(
            lambda state: (
                compact_observation(state.position),
                partial(observe, CONFIG)(state),
                classic_from_compact(compact_observation(state.position)),
            )
        )
    )
    batches = []
    for first in range(0, len(recording), BATCH):
        part = rows(recording.before, np.arange(first, min(first + BATCH, len(recording))))
        batches.append(jax.device_get(look(replay.states(part))))
    joined = jax.tree.map(lambda *parts: np.concatenate(parts)[: len(recording)], *batches)
    return joined


def no_action():
    return np.full(len(load("observations")), -1)


@pytest.mark.parametrize("part", ["player", "programs", "grid"])
def test_the_classic_observation_is_the_recorded_one(seen, part):
    _, classic, _ = seen
    expected = {part: load("observations").other[f"obs_{part}"]}
    lines = differences(expected, {part: getattr(classic, part)}, no_action(), atol=1e-6)
    assert not lines, report(lines)


def test_the_classic_observation_is_derived_from_the_compact_one(seen):
    _, classic, derived = seen
    for part in ("player", "programs", "grid"):
        np.testing.assert_array_equal(getattr(classic, part), getattr(derived, part))


def test_last_known_cells_of_hidden_cryptogs_are_the_recorded_ones(seen):
    hints = load("observations").other["obs_hints"].reshape(-1, 36)
    got = CELL["last_known"].read(jnp.asarray(seen[0].grid)) != 0
    lines = differences({"last_known": hints}, {"last_known": got}, no_action())
    assert not lines, report(lines)


def test_transmission_types_under_show_are_the_recorded_ones(seen):
    types = load("observations").other["obs_transmission_type"].reshape(-1, 36)
    got = CELL["transmission_type"].read(jnp.asarray(seen[0].grid)) - 1
    lines = differences({"type": types}, {"type": got}, no_action())
    assert not lines, report(lines)


def test_the_recording_has_what_is_hidden():
    other = load("observations").other
    assert other["obs_hints"].any()
    assert (other["obs_transmission_type"] >= 0).any()
