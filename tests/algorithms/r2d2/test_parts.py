"""Value scale, exploration, Q-values of sequences, targets: against plain Python."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from training.states import assert_close

from hackmatrix_rl.agent import MaskedCategorical, epsilon_greedy
from hackmatrix_rl.algorithms.r2d2 import EpsilonGreedy, Prioritized, Uniform, ValueRescaling
from hackmatrix_rl.algorithms.r2d2._acting import LastPosition, Steps
from hackmatrix_rl.algorithms.r2d2._buffer import Sample
from hackmatrix_rl.algorithms.r2d2._learning import SequenceLoss
from hackmatrix_rl.algorithms.r2d2._q_values import memory_after, unroll_q

from .building import network

pytestmark = pytest.mark.search

SPEC = probes.value_only().spec


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1])
def test_the_scale_is_that_of_the_paper_and_its_inverse_is_exact(epsilon):
    scale = ValueRescaling(epsilon)
    values = np.concatenate([np.linspace(-3, 3, 13), [1e-4, -1e-4, 600.0, -600.0, 1e5]])
    expected = np.sign(values) * (np.sqrt(np.abs(values) + 1) - 1) + epsilon * values
    found = scale.normalize(jnp.asarray(values, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-7)
    back = scale.denormalize(jnp.asarray(expected, jnp.float32))
    np.testing.assert_allclose(back, values, rtol=1e-5, atol=1e-6)
    assert scale.update(found) is scale


def test_environments_explore_by_the_paper_s_epsilons_and_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="epsilon must be 0 or more, not -1"):
        ValueRescaling(-1.0)
    found = EpsilonGreedy(0.4, 7.0).of_each(8)
    np.testing.assert_allclose(found, [0.4 ** (1 + 7 * i / 7) for i in range(8)], rtol=1e-5)
    assert EpsilonGreedy(0.4, 7.0).of_each(1).tolist() == pytest.approx([0.4])
    for given, says in (((1.5, 0.0), "epsilon must be"), ((0.5, -1.0), "spread must be")):
        with pytest.raises(ValueError, match=says):
            EpsilonGreedy(*given)


def test_only_legal_actions_are_taken_the_best_one_and_others_as_often_as_epsilon_says():
    values = jnp.asarray([1.0, 3.0, 2.0, 9.0])
    mask = jnp.asarray([True, True, True, False])
    keys = jax.random.split(jax.random.key(0), 6000)
    pi = MaskedCategorical(values, mask)

    def share(epsilon):
        found = jax.vmap(lambda key: epsilon_greedy(pi, jnp.float32(epsilon), key))
        return np.bincount(np.asarray(found(keys)), minlength=4) / 6000

    assert share(0.0).tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(share(0.6), [0.2, 0.6, 0.2, 0], atol=0.02)


TIME, BATCH = 7, 3


def sequence(seed, *, ends=0.3):
    random = np.random.default_rng(seed)
    seen, after = (jnp.asarray(random.normal(size=(TIME, BATCH, 4)), jnp.float32) for _ in "ab")
    done = random.random((TIME, BATCH)) < ends
    truncated = done & (random.random((TIME, BATCH)) < 0.5)
    mask, last_mask = random.random((2, TIME, BATCH, 3)) < 0.7
    return Steps(
        observation=seen,
        mask=jnp.asarray(mask),
        action=jnp.asarray(random.integers(0, 3, (TIME, BATCH)), jnp.int32),
        reward=jnp.asarray(random.normal(size=(TIME, BATCH)), jnp.float32),
        terminated=jnp.asarray(done & ~truncated),
        truncated=jnp.asarray(truncated),
        last=LastPosition(after, jnp.asarray(last_mask)),
    )


def some_carry(policy, seed=0):
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(random.normal(size=(BATCH, *leaf.shape)), jnp.float32) / 2,
        policy.initial_carry(),
    )


def step_by_step(policy, steps, carry, dueling):
    """Q-values of each step and of where it led, by calls; and the memories after each step."""
    call = eqx.filter_jit(policy)
    here, after = np.zeros((2, TIME, BATCH, 3), np.float32)
    memories = [[None] * BATCH for _ in range(TIME)]

    def values(logits, value):
        logits, value = np.asarray(logits), float(value)
        return value + logits - logits.mean() if dueling else logits

    for b in range(BATCH):
        memory = jax.tree.map(lambda leaf, b=b: leaf[b], carry)
        for t in range(TIME):
            *found, memory = call(steps.observation[t, b], memory)
            here[t, b] = values(*found)
            *found, _ = call(steps.last.observation[t, b], memory)
            after[t, b] = values(*found)
            if steps.done[t, b]:
                memory = policy.initial_carry()
            memories[t][b] = memory
    return here, after, memories


@pytest.mark.parametrize("kind", ["gru", "lstm", "closed"])
@pytest.mark.parametrize("dueling", [True, False])
def test_sequences_are_evaluated_as_step_by_step_and_the_memory_starts_anew(kind, dueling):
    policy, steps = network(SPEC, kind), sequence(3)
    policy = jax.tree.map(lambda leaf: leaf * 3 if eqx.is_array(leaf) else leaf, policy)
    carry = some_carry(policy)
    here, after, memories = step_by_step(policy, steps, carry, dueling)
    look = eqx.filter_jit(unroll_q)
    found, beyond = look(
        policy, steps.observation, steps.last.observation, carry, steps.done, dueling=dueling
    )
    np.testing.assert_allclose(found, here, atol=2e-5)
    np.testing.assert_allclose(beyond, after, atol=2e-5)
    alone, nothing = look(policy, steps.observation, None, carry, steps.done, dueling=dueling)
    assert nothing is None
    np.testing.assert_allclose(alone, here, atol=2e-5)
    assert steps.done[4].any()
    left = eqx.filter_jit(memory_after)(policy, steps.observation[:5], carry, steps.done[:5])
    expected = jax.tree.map(lambda *leaves: jnp.stack(leaves), *memories[4])
    assert_close(left, expected, rtol=1e-7, atol=2e-5)
    unchanged = memory_after(policy, steps.observation[:0], carry, steps.done[:0])
    assert eqx.tree_equal(unchanged, carry)


def plain_return(steps, value, last_value, t, b, gamma, n_step):
    total = 0.0
    for k in range(n_step):
        total += gamma**k * float(steps.reward[t + k, b])
        if steps.terminated[t + k, b]:
            return total
        if steps.truncated[t + k, b]:
            return total + gamma ** (k + 1) * float(last_value[t + k, b])
    return total + gamma**n_step * float(value[t + n_step, b])


def sample(steps, carry, weight, valid):
    batch = {
        "environment": jnp.zeros(BATCH, jnp.int32),
        "start": jnp.zeros(BATCH, jnp.int32),
        "weight": jnp.asarray(weight, jnp.float32),
        "valid": jnp.asarray(valid, jnp.float32),
    }
    return Sample(jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), steps), carry, **batch)


@pytest.mark.parametrize("burn_in", [0, 2])
def test_the_loss_is_that_of_plain_python(burn_in):
    gamma, n_step, scale = 0.9, 2, ValueRescaling()
    steps, policy, target = sequence(8, ends=0.3), network(SPEC), network(SPEC, seed=7)
    assert not steps.done[:2].any(axis=0).all(), "a memory of the burn-in is left"
    carry = some_carry(policy)
    loss = SequenceLoss(Prioritized(largest=0.9), gamma, n_step, burn_in, True)
    weight, valid = np.asarray([2.0, 1.0, 9.0]), [1, 1, 0]

    @eqx.filter_jit
    def prepared(policy, sample):
        prepared, sample = loss.prepare(sample)
        return prepared(policy, sample, target, scale)

    total, means, priority = prepared(policy, sample(steps, carry, weight, valid))

    here, after, _ = step_by_step(policy, steps, carry, True)
    other, other_after, _ = step_by_step(target, steps, carry, True)

    def inverse(value):
        size, e = abs(value), 1e-3
        return math.copysign(
            ((math.sqrt(1 + 4 * e * (size + 1 + e)) - 1) / (2 * e)) ** 2 - 1, value
        )

    def judged(chooses, judges, mask):
        legal = np.where(mask, chooses, -np.inf)  # the first, if none is legal
        return inverse(float(judges[np.argmax(legal)]))

    value, last_value = np.zeros((2, TIME, BATCH))
    for t in range(TIME):
        for b in range(BATCH):
            value[t, b] = judged(here[t, b], other[t, b], np.asarray(steps.mask[t, b]))
            seen = np.asarray(steps.last.mask[t, b])
            last_value[t, b] = judged(after[t, b], other_after[t, b], seen)
    errors = np.zeros((TIME - n_step - burn_in, BATCH))
    for t in range(burn_in, TIME - n_step):
        for b in range(BATCH):
            wanted = plain_return(steps, value, last_value, t, b, gamma, n_step)
            taken = here[t, b, int(steps.action[t, b])]
            root = math.copysign(math.sqrt(abs(wanted) + 1) - 1, wanted)
            errors[t - burn_in, b] = root + 1e-3 * wanted - taken
    each = 0.5 * (errors**2).mean(axis=0)
    # The largest weight of a valid sequence counts as 1.
    assert float(total) == pytest.approx((each[0] + each[1] / 2) / 2, rel=1e-4)
    assert float(means.q_loss) == pytest.approx(each[:2].mean(), rel=1e-4)
    assert float(means.td_error) == pytest.approx(np.abs(errors)[:, :2].mean(), rel=1e-4)
    size = np.abs(errors)
    expected = 0.9 * size.max(axis=0) + 0.1 * size.mean(axis=0)
    np.testing.assert_allclose(priority, expected, rtol=1e-3)


def test_burn_in_makes_the_memory_and_no_gradient_goes_through_it():
    steps, policy = sequence(4, ends=0.0), network(SPEC)
    carry, scale = some_carry(policy), ValueRescaling()

    @eqx.filter_jit
    def learned(burn_in, steps, carry):
        """Without what follows: the target network's memory is not compared."""
        loss = SequenceLoss(Uniform(), 0.0, 1, burn_in, True)
        given = sample(steps, carry, [1, 1, 1], [1, 1, 1])
        gradient, means = eqx.filter_grad(
            lambda policy: loss(policy, given, policy, scale)[:2], has_aux=True
        )(policy)
        return jax.tree.leaves((gradient, means))

    later = jax.tree.map(lambda leaf: leaf[3:], steps)
    known = eqx.filter_jit(memory_after)(policy, steps.observation[:3], carry, steps.done[:3])
    with_burn_in = learned(3, steps, carry)
    assert_close(with_burn_in, learned(0, later, known), atol=1e-6)
    # Once an episode has ended in the burn-in, the memory that was stored does not matter.
    ended = eqx.tree_at(lambda s: s.terminated, steps, steps.terminated.at[1].set(True))
    other = learned(3, ended, some_carry(policy, 9))
    assert_close(learned(3, ended, carry), other, atol=1e-6)
    assert np.abs(with_burn_in[-2] - other[-2]) > 1e-3
