"""The multi-plasticity network: its memory lies in its weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent import probes
from hackmatrix_rl.agent.networks import MPNActorCritic, evaluator_of
from hackmatrix_rl.agent.networks._plastic import MOST_KEPT, PlasticCell

SPEC = probes.Probe({}, board=True).spec
KEY = jax.random.key(0)
W = np.float32([[0.5, -1.0], [2.0, 0.25], [-0.5, 1.0]])  # [inputs, width]
B = np.float32([0.1, -0.2])
FIRST, SECOND = np.float32([1.0, -0.5, 2.0]), np.float32([0.5, 1.0, 0.0])


def cell_of(rate=0.1, decay=0.5, *, plastic=True):
    cell = PlasticCell(3, 2, rate=0.01, plastic=plastic, key=KEY)
    given = tuple(map(jnp.float32, (W, B, rate, decay)))
    return eqx.tree_at(lambda c: (c.inwards.weight, c.inwards.bias, c.rate, c.decay), cell, given)


def step(cell, x, modulations):
    return cell(cell.inwards.full(x), x, modulations)


def test_two_steps_are_those_of_the_equations():
    cell = cell_of()
    zero = jnp.zeros((3, 2), jnp.float32)
    h, m = step(cell, FIRST, zero)
    np.testing.assert_allclose(h, np.tanh(B + W.T @ FIRST), rtol=1e-6)
    np.testing.assert_allclose(m, 0.1 * np.outer(FIRST, h), rtol=1e-6)
    h2, m2 = step(cell, SECOND, m)
    np.testing.assert_allclose(h2, np.tanh(B + (W * (m + 1)).T @ SECOND), rtol=1e-6)
    np.testing.assert_allclose(m2, 0.5 * m + 0.1 * np.outer(SECOND, h2), rtol=1e-6)
    assert not np.allclose(h2, np.tanh(B + W.T @ SECOND))


@pytest.mark.parametrize(("decay", "kept"), [(1.5, MOST_KEPT), (-0.5, 0.0), (0.25, 0.25)])
def test_what_is_kept_is_clamped(decay, kept):
    before = jnp.full((3, 2), 0.2, jnp.float32)
    _, after = step(cell_of(0.0, decay), FIRST, before)
    np.testing.assert_allclose(after, kept * before, rtol=1e-6)


@pytest.mark.parametrize(("decay", "sign"), [(1.5, 1.0), (-0.5, -1.0)])
def test_a_decay_beyond_its_bounds_can_only_come_back(decay, sign):
    def kept(decay):
        before = jnp.full((3, 2), 0.2, jnp.float32)
        return step(cell_of(0.0, decay), FIRST, before)[1].sum()

    # Descent of a loss that grows with what is kept lowers the decay, and that of its negative
    # would raise it.
    slopes = {way: float(jax.grad(lambda d, way=way: way * kept(d))(decay)) for way in (1.0, -1.0)}
    assert slopes[sign] == pytest.approx(sign * 1.2)
    assert slopes[-sign] == 0


def test_rate_and_decay_begin_as_published_and_are_learned():
    cell = MPNActorCritic(SPEC, width=4, key=KEY).cell
    assert (float(cell.rate), float(cell.decay)) == pytest.approx((0.01, 0.99))
    assert float(MPNActorCritic(SPEC, width=4, rate=0.3, key=KEY).cell.rate) == pytest.approx(0.3)
    cell = PlasticCell(3, 2, rate=0.01, plastic=True, key=KEY)

    def last(cell):
        modulations = jnp.zeros((3, 2), jnp.float32)
        for x in (FIRST, SECOND, FIRST):
            output, modulations = step(cell, x, modulations)
        return output.sum()

    slopes = eqx.filter_grad(last)(cell)
    assert float(slopes.rate) != 0
    assert float(slopes.decay) != 0
    # Beside the difference quotient.
    for name in ("rate", "decay"):

        def moved(by, name=name):
            return last(eqx.tree_at(lambda c: getattr(c, name), cell, getattr(cell, name) + by))

        quotient = (moved(1e-2) - moved(-1e-2)) / 2e-2
        np.testing.assert_allclose(getattr(slopes, name), quotient, rtol=2e-2, atol=1e-5)


def test_frozen_remembers_nothing():
    network = MPNActorCritic(SPEC, width=4, plastic=False, key=KEY)
    seen = jax.random.normal(KEY, (4,), jnp.float32)
    logits, _, carry = network(seen, network.initial_carry())
    again, _, _ = network(seen, carry)
    np.testing.assert_array_equal(logits, again)
    assert not np.asarray(carry).any()
    plastic = MPNActorCritic(SPEC, width=4, key=KEY)
    same = [jax.tree.leaves(eqx.filter(each, eqx.is_array)) for each in (network, plastic)]
    assert [leaf.shape for leaf in same[0]] == [leaf.shape for leaf in same[1]]
    _, _, carry = plastic(seen, plastic.initial_carry())
    assert np.asarray(carry).any()


def test_a_projection_is_fixed_and_makes_the_memory_small():
    network = MPNActorCritic(SPEC, width=4, projection=2, key=KEY)
    assert network.initial_carry().shape == (3, 4)  # with the constant

    def loss(network):
        # Uniform heads would hide what is below.
        big = eqx.tree_at(lambda n: n.heads, network, replace_fn=_louder)
        logits, value, _ = big(jnp.ones(4, jnp.float32), network.initial_carry())
        return logits[0] + value

    slopes = eqx.filter_grad(loss)(network)
    assert not np.asarray(slopes.projection).any()
    assert np.asarray(slopes.cell.inwards.weight).any()
    with pytest.raises(ValueError, match="projection must be at least 1, not 0"):
        MPNActorCritic(SPEC, projection=0, key=KEY)


def _louder(heads):
    return jax.tree.map(lambda leaf: 10 * leaf if eqx.is_array(leaf) else leaf, heads)


def test_where_nothing_is_seen_it_remembers_what_was():
    """The last input is a constant: without it, the modulations would multiply zeros here."""
    network = eqx.tree_at(
        lambda n: n.cell.rate, MPNActorCritic(SPEC, width=4, key=KEY), jnp.float32(1)
    )
    nothing = jnp.zeros(4, jnp.float32)
    first = network.initial_carry()
    np.testing.assert_array_equal(network.drive(nothing)[1], [*np.zeros(first.shape[0] - 1), 1])
    seen = [network(x, first)[2] for x in (jnp.ones(4), -jnp.ones(4))]
    answers = [network(nothing, carry)[1] for carry in seen]
    assert answers[0] != answers[1]


def test_it_forgets_where_an_episode_ends():
    network = MPNActorCritic(SPEC, width=4, key=KEY)
    seen = jax.random.normal(KEY, (3, 1, 4), jnp.float32)
    first = network.initial_carry()[None]
    unroll = evaluator_of(network).unroll
    ends = jnp.asarray([[False], [True], [False]])
    fresh, _ = unroll(seen[2:], first, ends[2:])
    after_end, _ = unroll(seen, first, ends)
    np.testing.assert_allclose(after_end[2], fresh[0], rtol=1e-5, atol=1e-7)
    without, _ = unroll(seen, first, jnp.zeros((3, 1), bool))
    assert not np.array_equal(without[2], fresh[0])
