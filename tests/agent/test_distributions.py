"""Distributions of actions, against SciPy and numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import hackmatrix_rl as hm
from hackmatrix_rl.agent import (
    DiagonalGaussian,
    MaskedCategorical,
    ProductOfCategoricals,
    TanhGaussian,
)

KEY = jax.random.key(0)
BOX = hm.Box((-1.0, 0.0, -3.0), (1.0, 5.0, 1.0))
MIDDLE, HALF = np.array([0.0, 2.5, -1.0]), np.array([1.0, 2.5, 2.0])
PARAMETERS = jnp.array([0.3, -0.8, 1.1, -0.4, 0.2, -1.0])
OTHER = jnp.array([-0.2, 0.1, 0.9, 0.3, -0.3, -0.7])
MEAN, STD = np.asarray(PARAMETERS[:3]), np.exp(np.asarray(PARAMETERS[3:]))
PARTS = hm.MultiDiscrete((3, 2))
LOGITS = jnp.array([0.5, -1.0, 2.0, 0.3, -0.2])
MASK = jnp.array([True, True, False, True, True])
NONE = jnp.zeros(0, bool)


def test_a_diagonal_gaussian_is_a_normal_distribution_in_units_of_the_bounds():
    pi = DiagonalGaussian(PARAMETERS, BOX)
    normal = scipy.stats.norm(MIDDLE + HALF * MEAN, HALF * STD)
    action = np.array([1.7, -2.0, 0.4])
    assert np.allclose(pi.log_prob(jnp.float32(action)), normal.logpdf(action).sum(), rtol=1e-5)
    assert np.allclose(pi.entropy(), normal.entropy().sum(), rtol=1e-6)
    assert np.allclose(pi.mode(), normal.mean(), rtol=1e-6)
    drawn = jax.vmap(pi.sample)(jax.random.split(KEY, 20_000))
    assert np.allclose(drawn.mean(axis=0), normal.mean(), atol=0.06)
    assert np.allclose(drawn.std(axis=0), normal.std(), rtol=0.03)
    played = np.asarray(pi.to_environment(drawn))
    assert ((played >= BOX.low) & (played <= BOX.high)).all()
    assert (np.asarray(drawn == played).mean(axis=0) < 1).all()


def squashed_density(u, mean, std, half):
    """The density of `half * tanh(u)` in float64, by the change of variables."""
    return scipy.stats.norm.pdf(u, mean, std) / (half / np.cosh(u) ** 2)


def test_a_squashed_gaussian_has_the_density_of_the_action_that_is_played():
    pi = TanhGaussian(PARAMETERS, BOX)
    raw = np.array([0.9, -2.5, 0.1])
    density = squashed_density(raw, MEAN, STD, HALF)
    assert np.allclose(pi.log_prob(jnp.float32(raw)), np.log(density).sum(), rtol=1e-5)
    played = pi.to_environment(jnp.float32(raw))
    assert np.allclose(played, MIDDLE + HALF * np.tanh(raw), atol=1e-5)
    assert np.allclose(pi.from_environment(played), raw, rtol=1e-4)
    # The density integrates to 1 over the bounds, and its entropy is the integral of -p log p.
    one = TanhGaussian(jnp.array([0.3, -0.4]), hm.Box((-2.0,), (2.0,)))

    def density_at(action):
        return squashed_density(np.arctanh(action / 2), MEAN[0], STD[0], 2.0)

    edge = 2 - 1e-12
    total, _ = scipy.integrate.quad(density_at, -edge, edge)
    entropy, _ = scipy.integrate.quad(
        lambda a: -density_at(a) * np.log(density_at(a)), -edge, edge, limit=200
    )
    assert np.allclose(total, 1, atol=1e-5)
    assert np.allclose(one.entropy(), entropy, atol=1e-3)


def test_a_squashed_gaussian_is_finite_where_tanh_rounds_to_one():
    pi = TanhGaussian(jnp.array([40.0, 0.0]), hm.Box((-1.0,), (1.0,)))

    def loss(raw):
        return pi.log_prob(raw)

    value, gradient = jax.value_and_grad(loss)(jnp.array([40.0]))
    # log N(0) - log(1 - tanh(40)^2), where the second is 2 log 2 - 80
    assert np.allclose(value, -0.9189385 + 80 - 2 * np.log(2), rtol=1e-6)
    assert np.isfinite(gradient).all()
    assert float(pi.to_environment(jnp.array([40.0]))[0]) == 1.0
    assert np.isfinite(pi.from_environment(jnp.array([1.0]))).all()


@pytest.mark.parametrize("kind", [DiagonalGaussian, TanhGaussian])
def test_the_divergence_of_gaussians_is_the_mean_log_ratio(kind):
    pi, other = kind(PARAMETERS, BOX), kind(OTHER, BOX)
    means = np.asarray(OTHER[:3]), np.exp(np.asarray(OTHER[3:]))
    expected = (
        np.log(means[1] / STD) + (STD**2 + (MEAN - means[0]) ** 2) / (2 * means[1] ** 2) - 0.5
    )
    assert np.allclose(pi.divergence_from(other), expected.sum(), rtol=1e-5)
    assert np.allclose(pi.divergence_from(pi), 0, atol=1e-6)
    raw = jax.vmap(pi.sample)(jax.random.split(KEY, 20_000))
    sampled = jnp.mean(jax.vmap(pi.log_prob)(raw) - jax.vmap(other.log_prob)(raw))
    assert np.allclose(sampled, expected.sum(), rtol=0.05)


def test_a_product_is_a_categorical_over_all_combinations():
    pi, other = (
        ProductOfCategoricals(LOGITS, MASK, PARTS),
        ProductOfCategoricals(-LOGITS, MASK, PARTS),
    )
    logits, mask = LOGITS[:3, None] + LOGITS[None, 3:], MASK[:3, None] & MASK[None, 3:]
    flat = MaskedCategorical(logits.ravel(), mask.ravel())
    flat_other = MaskedCategorical(-logits.ravel(), mask.ravel())
    for first, second in np.ndindex(3, 2):
        action = jnp.array([first, second])
        assert np.allclose(pi.log_prob(action), flat.log_prob(jnp.int32(2 * first + second)))
    assert np.allclose(pi.entropy(), flat.entropy(), rtol=1e-6)
    assert np.allclose(pi.divergence_from(other), flat.divergence_from(flat_other), rtol=1e-5)
    assert pi.mode().tolist() == [0, 0]
    drawn = jax.vmap(pi.sample)(jax.random.split(KEY, 4000))
    assert drawn.dtype == jnp.int32
    assert not (drawn[:, 0] == 2).any()
    counts = np.bincount(np.asarray(2 * drawn[:, 0] + drawn[:, 1]), minlength=6) / 4000
    assert np.allclose(counts, flat.probs, atol=0.03)


DISTRIBUTIONS = {
    "categorical": lambda p: MaskedCategorical(p, jnp.ones(p.shape, bool)),
    "product": lambda p: ProductOfCategoricals(
        p, jnp.ones(p.shape, bool), hm.MultiDiscrete((4, 2))
    ),
    "gaussian": lambda p: DiagonalGaussian(p, BOX),
    "tanh": lambda p: TanhGaussian(p, BOX),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_batch_is_its_rows_and_parameters_give_the_same_distribution(name):
    make = DISTRIBUTIONS[name]
    rows = jax.random.normal(KEY, (5, 6))
    pi = make(rows)
    actions = jax.vmap(lambda row, key: make(row).sample(key))(rows, jax.random.split(KEY, 5))
    again = make(pi.parameters)
    for method in ("entropy", "mode"):
        single = jax.vmap(lambda row, method=method: getattr(make(row), method)())(rows)
        assert np.allclose(getattr(pi, method)(), single, rtol=1e-6)
        assert np.allclose(getattr(again, method)(), single, rtol=1e-5)
    assert np.allclose(
        pi.log_prob(actions), jax.vmap(lambda r, a: make(r).log_prob(a))(rows, actions)
    )
    assert np.allclose(again.divergence_from(pi), 0, atol=1e-6)
    gradient = jax.grad(lambda rows: jnp.sum(make(rows).log_prob(actions) + make(rows).entropy()))(
        rows
    )
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).sum() > 0


def test_a_standard_deviation_stays_finite():
    pi = DiagonalGaussian(jnp.array([0.0, 1e6]), hm.Box((-1.0,), (1.0,)))
    assert float(pi.log_std[0]) == 2.0
    low = DiagonalGaussian(jnp.array([0.0, -1e6]), hm.Box((-1.0,), (1.0,)))
    assert np.isfinite(low.log_prob(low.sample(KEY)))


@pytest.mark.parametrize("beyond", [-25.0, 3.0])
def test_a_standard_deviation_comes_back_from_beyond_its_bounds(beyond):
    def parts(log_std):
        pi = DiagonalGaussian(jnp.array([0.1, log_std]), hm.Box((-1.0,), (1.0,)))
        return pi.log_prob(jnp.array([0.1])), pi.entropy()

    of_density, of_entropy = jax.jacobian(parts)(jnp.float32(beyond))
    np.testing.assert_allclose(of_density, -1.0)
    assert of_entropy == (1.0 if beyond < 0 else 0.0)  # an entropy bonus never leads further out


def test_wrong_sizes_name_what_is_expected():
    with pytest.raises(ValueError, match=r"parameters is of shape \(3,\); expected 6 numbers"):
        DiagonalGaussian(jnp.zeros(3), BOX)
    with pytest.raises(ValueError, match=r"logits is of shape \(4,\); expected 5 numbers"):
        ProductOfCategoricals(jnp.zeros(4), jnp.ones(4, bool), PARTS)
