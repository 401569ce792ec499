"""The buffer: whole sequences in the order of time, drawn as often as they should be."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import Prioritized, Uniform
from hackmatrix_rl.algorithms.r2d2._acting import LastPosition, Steps
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer, Sample, with_priorities

from .building import network

pytestmark = pytest.mark.search

ENVS, LENGTH, COUNT, WINDOW = 4, 12, 3, 5
STARTS = LENGTH // COUNT
PROBE = probes.value_only()
POLICY = network(PROBE.spec, width=2)


def numbered(start):
    """Steps whose reward tells environment and time, and the memory before the first of them."""
    times = np.arange(start, start + COUNT)
    reward = jnp.asarray([1000 * each + times for each in range(ENVS)], jnp.float32)
    shape = (ENVS, COUNT)
    observation = jnp.broadcast_to(reward[..., None], (*shape, 4))
    mask = jnp.ones((*shape, 3), bool)
    steps = Steps(
        observation=observation,
        mask=mask,
        action=reward.astype(jnp.int32),
        reward=reward,
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.zeros(shape, bool),
        last=LastPosition(observation + 0.5, mask),
    )
    return steps, jnp.broadcast_to(reward[:, :1], (ENVS, 2))


@eqx.filter_jit
def write(buffer, steps, carry):
    return buffer.write(steps, carry)


def filled(writes, *, priorities=False):
    buffer = Buffer.empty(
        PROBE, POLICY, num_envs=ENVS, length=LENGTH, train_freq=COUNT, priorities=priorities
    )
    for number in range(writes):
        buffer = write(buffer, *numbered(number * COUNT))
    return buffer


@eqx.filter_jit
def drawn_from(buffer, keys, sampling, count=200):
    return buffer.draw(sampling, count, starts=STARTS, window=WINDOW, keys=keys)


@pytest.mark.parametrize("writes", [2, 4, 11])
@pytest.mark.parametrize("blocks", [4, 2])
@pytest.mark.parametrize("sampling", [Uniform(), Prioritized()], ids=["uniform", "priorities"])
def test_exactly_the_whole_sequences_are_drawn_with_the_memory_before_them(
    writes, blocks, sampling
):
    buffer = filled(writes, priorities=sampling.uses_priorities)
    drawn = drawn_from(buffer, jax.random.split(jax.random.key(writes), blocks), sampling)
    assert (drawn.valid == 1).all()
    reward = np.asarray(drawn.steps.reward)
    assert (np.diff(reward, axis=1) == 1).all(), "one step after another"
    first = reward[:, 0] % 1000
    oldest, newest = max(0, writes * COUNT - LENGTH), writes * COUNT - 1
    begins = [time for time in range(oldest, newest + 1, COUNT) if time + WINDOW - 1 <= newest]
    assert set(first.tolist()) == set(begins)
    assert (np.asarray(drawn.carry) == reward[:, :1]).all()
    seen, led_to = (
        each[..., 0] for each in (drawn.steps.observation, drawn.steps.last.observation)
    )
    assert (np.asarray(seen) == reward).all()
    assert (np.asarray(led_to) == reward + 0.5).all()
    assert (np.asarray(drawn.steps.action) == reward).all()
    size = ENVS // blocks
    # All have the same priority, so each is as likely as under `Uniform`.
    np.testing.assert_allclose(drawn.weight, 1.0, rtol=1e-5)
    for block, seen in enumerate((reward[:, 0] // 1000).reshape(blocks, -1).tolist()):
        assert set(seen) == set(range(block * size, (block + 1) * size))


def test_sequences_are_drawn_in_proportion_to_their_priorities_and_weighted_back():
    sampling = Prioritized(exponent=0.5, correction=1.0)
    priority = jnp.asarray([[1.0, 4.0, 9.0, 16.0]] * 2)
    there = jnp.asarray([[True, True, False, True], [True, True, True, True]])
    draw = jax.jit(lambda key: sampling.draw(there, priority, 40_000, key=key))
    place, probability = draw(jax.random.key(0))
    mass = np.asarray([1, 2, 0, 4, 1, 2, 3, 4]) / 17
    found = np.bincount(np.asarray(place), minlength=8) / 40_000
    np.testing.assert_allclose(found, mass, atol=0.01)
    np.testing.assert_allclose(probability, mass[np.asarray(place)], rtol=1e-5)
    # What is drawn more often counts less, so that the mean is that over all seven.
    weight = np.asarray(sampling.weight(probability, jnp.float32(7.0)))
    values = np.arange(8.0)[np.asarray(place)]
    assert (weight * values).mean() == pytest.approx((28 - 2) / 7, rel=0.03)
    np.testing.assert_allclose(
        Prioritized(correction=0.5).weight(jnp.asarray([0.25]), jnp.float32(16.0)), 0.5
    )
    assert Uniform().weight(probability, jnp.float32(7.0)).tolist() == [1.0] * 40_000


def test_new_priorities_go_to_what_was_drawn_and_counts():
    drawn = drawn_from(
        filled(5, priorities=True), jax.random.split(jax.random.key(0), ENVS), Prioritized(), 1
    )
    drawn = Sample(
        drawn.steps,
        drawn.carry,
        jnp.asarray([0, 0, 1, 3]),
        jnp.asarray([2, 2, 0, 1]),
        drawn.weight,
        jnp.asarray([1.0, 1.0, 1.0, 0.0]),
    )
    before = jnp.full((ENVS, STARTS), 7.0)
    expected = np.full((ENVS, STARTS), 7.0)
    expected[0, 2], expected[1, 0] = 2.0, 3.0
    new = jnp.asarray([1.0, 2.0, 3.0, 4.0])
    after = with_priorities(before, drawn, new, jnp.bool_(True))
    assert after.tolist() == expected.tolist()

    # A step that is skipped takes what has no finite error out of the draw, and nothing else.
    expected[0, 2], expected[1, 0] = 7.0, 0.0
    after = with_priorities(before, drawn, new.at[2:].set(jnp.nan), jnp.bool_(False))
    assert after.tolist() == expected.tolist()


def test_a_new_sequence_has_the_largest_priority_and_last_positions_only_with_truncation():
    buffer = filled(2, priorities=True)
    assert buffer.priority.tolist() == [[1.0, 1.0, 0.0, 0.0]] * ENVS
    known = eqx.tree_at(lambda x: x.priority, buffer, buffer.priority.at[1].set(0.25))
    assert write(known, *numbered(6)).priority[:2].tolist() == [[1, 1, 1, 0], [0.25] * 4]
    game = hm.Batched(hm.DelayedMatch())
    policy = network(game.spec)
    buffer = Buffer.empty(game, policy, num_envs=2, length=8, train_freq=4, priorities=False)
    assert buffer.steps.last is None
    assert buffer.steps.observation.shape == (2, 8, 3)
    assert buffer.carry.shape == (2, 2, 16)


@pytest.mark.parametrize("name", ["exponent", "correction", "largest"])
def test_numbers_beyond_0_and_1_are_refused(name):
    with pytest.raises(ValueError, match=rf"{name} must be in \[0, 1\], not 1.5"):
        Prioritized(**{name: 1.5})
