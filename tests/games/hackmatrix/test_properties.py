"""What holds after any play: legal or not, from new games and from altered positions."""

import jax
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from games.hackmatrix.invariants import play_at_random, random_legal, violations
from games.hackmatrix.mutations import accepted, mutated_positions, together
from games.hackmatrix.recordings import CONFIG, FLAGS, canonical, differences, load, report, rows
from games.hackmatrix.replay import BATCH
from games.hackmatrix.setup_checker import BLOCKS, beside
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, from_arrays, to_arrays

STEPS = 25
WAIT, WARP, UNDO = 10, 8, 14

few = settings(
    max_examples=4,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""Each example plays thousands of games; the same ones in each run."""

seeds = st.integers(0, 2**31 - 1)


def start(replay, seed, altered):
    """A batch of new games, or of recorded positions (odd and altered ones among them)."""
    if not altered:
        return replay.new_states(seed)
    pool = load("observations").before
    index = np.random.default_rng(seed).integers(0, len(pool["player"]), BATCH)
    return from_arrays(CONFIG, rows(pool, index))


def walled_in(position, record, *, altered):
    """Section 4's only way to an empty mask: on a block (by WARP), blocks all around.

    Altered boards have free cells without a way out too; WARP leads there just so.
    """
    row, col = position["player"][record, :2]
    content = position["cells"][record, :, 0].reshape(6, 6)
    here = [] if altered else [(row, col)]
    return all(content[cell] in BLOCKS for cell in [*beside((row, col)), *here])


@few
@given(seed=seeds, altered=st.booleans())
def test_legal_play_keeps_the_invariants(replay, seed, altered):
    rng = np.random.default_rng(seed)
    states = start(replay, seed, altered)
    over = np.zeros(BATCH, bool)
    position = to_arrays(states)
    for step in range(STEPS):
        mask = replay.legal(states)
        for record in np.flatnonzero(~mask.any(axis=1) & ~over):
            stuck = walled_in(position, record, altered=altered)
            assert stuck, f"step {step}, game {record}: empty mask"
        over |= ~mask.any(axis=1)
        states, outcome = replay.step(states, random_legal(mask, rng), seed % 100_000 + step)
        position = to_arrays(states)
        lines = violations(position)
        assert not lines, f"step {step}: {report(lines)}"
        assert np.isfinite(outcome["terms"]).all()
        assert (outcome["legal"] | over).all()
        assert (outcome["died"] == (position["player"][:, 2] == 0))[~over].all()
        over |= outcome["died"] | outcome["won"]
    assert not np.asarray(states.position.dropped).any()


def test_an_empty_mask_ends_the_game_without_harm(replay):
    """WARP onto a glitch on a block among blocks, and nothing left to pay with."""
    position = rows(load("new_games").before, np.zeros(BATCH, int))
    position = {key: np.array(value) for key, value in position.items()}
    position["player"][:, :2] = 2, 2
    position["player"][:, 3:6] = 0
    for row, col in [(2, 2), *beside((2, 2))]:
        position["cells"][:, row * 6 + col] = (1, 5, 5, 0, 0, 0, 0)
    states = replay.states(position)
    assert not replay.legal(states).any()
    after, outcome = replay.step(states, np.arange(BATCH) % NUM_ACTIONS, 0)
    assert not outcome["terms"].any()
    assert not any(outcome[flag].any() for flag in FLAGS)
    assert_unchanged(states, after)


def assert_unchanged(before, after, where=slice(None)):
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(np.asarray(old)[where], np.asarray(new)[where])


@few
@given(
    seed=seeds,
    altered=st.booleans(),
    odd=st.sampled_from([-(2**31), -1, NUM_ACTIONS, 1000, 2**31 - 1]),
)
def test_an_illegal_action_changes_nothing(replay, seed, altered, odd):
    states = start(replay, seed, altered)
    mask = replay.legal(states)
    actions = random_legal(~mask, np.random.default_rng(seed))  # never all are legal
    actions = np.where(np.arange(BATCH) % 2 == 0, odd, actions)
    after, outcome = replay.step(states, actions, seed % 100_000)
    assert not outcome["terms"].any()
    assert not any(outcome[flag].any() for flag in FLAGS)
    assert_unchanged(states, after)


@few
@given(seed=seeds)
def test_undo_after_a_turn_restores_that_turns_snapshot(replay, seed):
    """Between the enemy turn and UNDO: only programs that do not end the turn."""
    rng = np.random.default_rng(seed)
    states = start(replay, seed, altered=True)
    position = to_arrays(states)
    position["owned"][:] = 1
    position["player"][:, 2:5] = 3, 99, 99
    position["game"][:, 6] = 0
    states = from_arrays(CONFIG, position)

    states, turn = replay.step(states, np.full(BATCH, WAIT), seed % 100_000)
    snapshot = to_arrays(states)
    changed = np.zeros(BATCH, bool)
    for step in range(3):
        mask = replay.legal(states)
        mask[:, :5] = False
        mask[:, [WAIT, UNDO, WARP]] = False  # WARP may complete the stage
        states, _ = replay.step(states, random_legal(mask, rng), seed % 100_000 + step)
        changed |= mask.any(axis=1)
    states, outcome = replay.step(states, np.full(BATCH, UNDO), 0)
    restored = to_arrays(states)

    assert (turn["legal"] & outcome["legal"]).all()
    assert changed.all()
    expected, got = canonical(snapshot), canonical(restored)
    # What a snapshot does not hold, and the flags that UNDO loses (quirk).
    for each in (expected, got):
        each["game"][:, [6, 8, 9, 10, 11]] = 0
    expected["enemies"][..., 8:10] = 0
    expected["transmissions"][..., 4:6] = 0
    lines = differences(expected, got, np.full(BATCH, UNDO))
    assert not lines, report(lines)


def test_a_changed_position_is_refused_by_name_or_comes_out_as_it_went_in_and_plays(replay):
    taken = []

    @settings(few, max_examples=400)
    @given(mutated_positions)
    def look_at(mutated):
        state = accepted(mutated.arrays())
        if state is not None:
            taken.append(state)

    look_at()
    assert len(taken) > 100, "hardly any was accepted"
    play_at_random(replay, together(taken, BATCH), steps=20, seed=0)
