import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import MaskedCategorical

pytestmark = pytest.mark.smoke

LOGITS = jnp.array([0.3, -1.2, 2.0, 0.0, 5.0], jnp.float32)
MASK = jnp.array([True, False, True, True, False])


def test_probabilities_and_entropy_are_of_the_softmax_over_the_legal_actions():
    legal = np.exp(np.array([0.3, 2.0, 0.0]))
    expected = np.zeros(5)
    expected[[0, 2, 3]] = p = legal / legal.sum()
    chances = MaskedCategorical(LOGITS, MASK)
    np.testing.assert_allclose(chances.probs, expected, rtol=1e-6)
    assert chances.entropy() == pytest.approx(-(p * np.log(p)).sum(), rel=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e30])
def test_an_illegal_action_has_no_probability_whatever_its_logit(size):
    chances = MaskedCategorical(LOGITS * size, MASK)
    assert chances.probs[1] == 0.0
    assert chances.probs[4] == 0.0
    assert chances.log_prob(jnp.int32(4)) == -jnp.inf
    assert jnp.sum(chances.probs) == pytest.approx(1.0)


def test_actions_are_drawn_as_jax_draws_them():
    keys = jax.random.split(jax.random.key(0), 500)
    chances = MaskedCategorical(LOGITS, MASK)
    drawn = jax.jit(jax.vmap(chances.sample))(keys)
    expected = jax.vmap(lambda key: jax.random.categorical(key, chances.log_probs))(keys)
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("lost", [jnp.nan, LOGITS.at[0].set(jnp.nan)])
def test_of_what_is_not_a_number_an_action_is_drawn_all_the_same(lost):
    chances = MaskedCategorical(LOGITS * 0 + lost, MASK)
    assert 0 <= int(chances.sample(jax.random.key(0))) < 5


def test_the_mode_is_legal_and_a_single_legal_action_certain():
    assert MaskedCategorical(LOGITS, MASK).mode() == 2
    chances = MaskedCategorical(LOGITS, jnp.arange(5) == 1)
    assert chances.log_prob(jnp.int32(1)) == 0.0
    assert chances.entropy() == 0.0


def test_without_a_legal_action_it_is_uniform_and_finite():
    chances = MaskedCategorical(LOGITS, jnp.zeros(5, bool))
    np.testing.assert_allclose(chances.probs, np.full(5, 0.2), rtol=1e-6)
    assert chances.entropy() == pytest.approx(np.log(5), rel=1e-6)
    assert np.isfinite(chances.log_prob(jnp.int32(3)))
    assert 0 <= int(chances.sample(jax.random.key(0))) < 5


@pytest.mark.parametrize("mask", [MASK, jnp.zeros(5, bool), jnp.arange(5) == 2])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_gradients_are_finite_and_leave_illegal_logits_alone(mask, size):
    def score(logits):
        chances = MaskedCategorical(logits, mask)
        return chances.log_prob(jnp.int32(2)) + chances.entropy()

    gradient = jax.grad(score)(LOGITS * size)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[~np.asarray(mask)], 0.0)


def test_the_gradient_is_that_of_the_formula():
    def score(logits):
        chances = MaskedCategorical(logits, MASK)
        return chances.log_prob(jnp.int32(0)) + 0.5 * chances.entropy()

    gradient = jax.grad(score)(LOGITS)
    for action in (0, 2, 3):
        step = 1e-2 * (jnp.arange(5) == action).astype(jnp.float32)
        difference = (score(LOGITS + step) - score(LOGITS - step)) / 2e-2
        assert gradient[action] == pytest.approx(float(difference), abs=1e-3)


def test_the_divergence_of_distributions_is_as_defined():
    one, other = np.array([0.7, 0.2, 0.1]), np.array([0.3, 0.3, 0.4])
    everything = jnp.ones(3, bool)
    p, q = (
        MaskedCategorical(jnp.log(jnp.asarray(x, jnp.float32)), everything) for x in (one, other)
    )
    assert p.divergence_from(q) == pytest.approx(np.sum(one * np.log(one / other)), rel=1e-5)
    assert p.divergence_from(p) == 0.0


def test_what_is_illegal_to_both_adds_nothing_to_the_divergence():
    mask = jnp.array([True, True, False])
    p, q = (MaskedCategorical(jnp.array([0.0, 1.0, x], jnp.float32), mask) for x in (5.0, -5.0))
    assert p.divergence_from(q) == 0.0
    alone = MaskedCategorical(p.log_probs * 0.0, jnp.array([True, False, False]))
    assert p.divergence_from(alone) == np.inf


FLAT = jnp.zeros(4, jnp.float32)
NEVER = jnp.array([0.0, 1.0, -jnp.inf, -200.0], jnp.float32)
"""Logits of legal actions: one has probability 0, and that of another is too small for float32."""


def test_a_legal_action_of_probability_zero_adds_nothing_and_gradients_are_finite():
    everything = jnp.ones(4, bool)
    p = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    entropy = -(p * np.log(p)).sum()

    def numbers(logits, others=FLAT):
        one, other = (MaskedCategorical(each, everything) for each in (logits, others))
        return jnp.stack([one.entropy(), one.divergence_from(other), one.cross_entropy(one.probs)])

    np.testing.assert_allclose(numbers(NEVER), [entropy, np.log(4) - entropy, entropy], rtol=1e-5)
    # What has probability 0 on both sides, or here alone, makes no divergence infinite.
    never_twice = NEVER.at[3].set(-jnp.inf)
    for one, other in ((NEVER, never_twice), (never_twice, NEVER), (never_twice, never_twice)):
        np.testing.assert_allclose(numbers(one, other), [entropy, 0.0, entropy], atol=1e-6)
        for gradient in jax.jacobian(numbers, argnums=(0, 1))(one, other):
            assert np.isfinite(gradient).all()
    by_entropy, by_divergence, _ = jax.jacobian(numbers)(NEVER)
    as_illegal = jax.grad(lambda logits: MaskedCategorical(logits, NEVER > -100).entropy())(NEVER)
    np.testing.assert_allclose(by_entropy, as_illegal, atol=1e-6)
    np.testing.assert_allclose(by_divergence, -as_illegal, atol=1e-6)
    # Impossible is something else than unknown.
    assert np.isnan(numbers(NEVER.at[0].set(jnp.nan))).all()
    assert numbers(FLAT, NEVER)[1] == np.inf
