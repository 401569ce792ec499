import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import Batch, MaskedCategorical, PPOLoss
from hackmatrix_rl.agent.networks import ActorCritic


class Table(ActorCritic):
    """Logits and values are the parameters; the observation says which row."""

    logits: jax.Array
    value: jax.Array

    def __call__(self, observation, carry):
        return self.logits[observation], self.value[observation], carry


def batch(log_prob, advantage, *, value=None, target=None, mask=None) -> Batch:
    """Two steps of one environment, seen as rows 0 and 1, with action 0 in both."""

    def column(x):
        return jnp.asarray(x, jnp.float32).reshape(2, 1)

    zeros = jnp.zeros((2, 1), jnp.float32)
    return Batch(
        observation=jnp.arange(2, dtype=jnp.int32).reshape(2, 1),
        mask=jnp.ones((2, 1, 3), bool) if mask is None else mask,
        action=jnp.zeros((2, 1), jnp.int32),
        log_prob=column(log_prob),
        value=zeros if value is None else column(value),
        done=jnp.zeros((2, 1), bool),
        initial_carry=(),
        advantage=column(advantage),
        value_target=zeros if target is None else column(target),
    )


def policy(value=(0.0, 0.0)) -> Table:
    logits = jnp.array([[0.5, -0.2, 0.1], [1.0, 0.3, -2.0]], jnp.float32)
    return Table(logits, jnp.asarray(value, jnp.float32))


def now(p: Table) -> np.ndarray:
    return np.asarray(jax.nn.log_softmax(p.logits)[:, 0], np.float64)


PLAIN = PPOLoss(vf_coef=0.0, ent_coef=0.0, normalize_advantage=False)


def test_the_objective_is_the_smaller_of_ratio_and_clipped_ratio_and_flat_beyond_the_clip():
    p = policy()
    old = now(p) - np.log([1.5, 0.5])  # ratios 1.5 and 0.5
    for advantage, expected in (([1.0, 1.0], -(1.2 + 0.5) / 2), ([-1.0, -1.0], (1.5 + 0.8) / 2)):
        loss, metrics = PLAIN(p, batch(old, advantage))
        assert loss == pytest.approx(expected, rel=1e-5)
        assert metrics.clip_fraction == 1.0
    p = policy()
    old = now(p) - np.log([1.5, 0.5])
    gradient = jax.grad(lambda p, b: PLAIN(p, b)[0])(p, batch(old, [1.0, -1.0]))
    np.testing.assert_allclose(gradient.logits, 0.0, atol=1e-7)
    back = jax.grad(lambda p, b: PLAIN(p, b)[0])(p, batch(old, [-1.0, 1.0]))
    assert np.abs(back.logits).max(axis=1).min() > 0.05


def test_at_ratio_one_the_gradient_is_the_policy_gradient():
    p = policy()
    advantage = np.array([2.0, -3.0])
    gradient = jax.grad(lambda p, b: PLAIN(p, b)[0])(p, batch(now(p), advantage)).logits
    chances = np.asarray(jax.nn.softmax(p.logits))
    expected = -advantage[:, None] * (np.eye(3)[[0, 0]] - chances) / 2
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_advantages_are_normalised_over_the_minibatch_equal_ones_too():
    p = policy()
    plain, _ = PLAIN(p, batch(now(p) - 0.1, [1.0, -1.0]))
    normalising = PPOLoss(vf_coef=0.0, ent_coef=0.0)
    scaled, _ = normalising(p, batch(now(p) - 0.1, [507.0, 101.0]))
    assert scaled == pytest.approx(float(plain), rel=1e-4)
    p = policy()
    loss, _ = PPOLoss()(p, batch(now(p), [3.0, 3.0]))
    assert np.isfinite(loss)


def test_the_value_loss_is_half_the_squared_error_and_clipped_the_larger_of_both():
    only_value = PPOLoss(vf_coef=1.0, ent_coef=0.0)
    p = policy(value=(1.0, -2.0))
    loss, metrics = only_value(p, batch(now(p), [0.0, 0.0], target=[2.0, 2.0]))
    assert metrics.value_loss == pytest.approx((1.0 + 16.0) / 4)
    assert loss == pytest.approx((1.0 + 16.0) / 4)
    clipped = PPOLoss(value_clip=0.1)
    # Row 0 moved from 0 to 1, towards the target 1: clipped it would be at 0.1 still.
    # Row 1 moved from 0 to 1, away from the target -1: its own error is the larger one.
    p = policy(value=(1.0, 1.0))
    _, metrics = clipped(p, batch(now(p), [0.0, 0.0], value=[0.0, 0.0], target=[1.0, -1.0]))
    assert metrics.value_loss == pytest.approx((0.9**2 + 2.0**2) / 4)


def test_the_entropy_is_rewarded_and_the_divergence_estimated_and_never_negative():
    p = policy()
    with_bonus, metrics = PPOLoss(ent_coef=0.5)(p, batch(now(p), [0.0, 0.0]))
    without, _ = PPOLoss(ent_coef=0.0)(p, batch(now(p), [0.0, 0.0]))
    assert without - with_bonus == pytest.approx(0.5 * float(metrics.entropy), rel=1e-5)
    p = policy()
    _, same = PPOLoss()(p, batch(now(p), [0.0, 0.0]))
    assert same.approx_kl == pytest.approx(0.0, abs=1e-6)
    _, moved = PPOLoss()(p, batch(now(p) - np.log([1.5, 0.5]), [0.0, 0.0]))
    expected = np.mean([1.5 - 1 - np.log(1.5), 0.5 - 1 - np.log(0.5)])
    assert moved.approx_kl == pytest.approx(expected, rel=1e-4)


def test_the_mask_that_was_used_to_act_is_used_again():
    p = policy()
    mask = jnp.ones((2, 1, 3), bool).at[0, 0, 1].set(False)
    masked = np.array(
        [jax.nn.log_softmax(p.logits[0, jnp.array([0, 2])])[0], now(p)[1]], np.float64
    )
    _, metrics = PPOLoss()(p, batch(masked, [1.0, -1.0], mask=mask))
    assert metrics.approx_kl == pytest.approx(0.0, abs=1e-6)
    _, unmasked = PPOLoss()(p, batch(masked, [1.0, -1.0]))
    assert unmasked.approx_kl > 0.01


def old_log_probs(mask):
    """Of a policy that acted, under a mask of the legal actions."""
    logits = jnp.array([[0.0, 1.0, 2.0], [0.5, -0.5, 0.0]], jnp.float32).reshape(2, 1, 3)
    return MaskedCategorical(logits, mask).log_probs


def test_the_true_divergence_is_the_sum_over_all_legal_actions():
    mask = jnp.array([[True, True, True], [True, False, True]]).reshape(2, 1, 3)
    log_probs = old_log_probs(mask)
    seen = batch(np.asarray(log_probs)[:, 0, 0], [1.0, -1.0], mask=mask)
    seen = dataclasses.replace(seen, log_probs=log_probs)
    _, metrics = PPOLoss(true_kl=True)(policy(), seen)
    # By hand, in float64: the softmax over the legal actions alone.
    old, new = np.array([[0.0, 1.0, 2.0]]), np.array([[0.5, -0.2, 0.1]])
    pairs = [(old, new), (np.array([[0.5, 0.0]]), np.array([[1.0, -2.0]]))]
    found = []
    for before, after in pairs:
        p, q = (np.exp(x) / np.exp(x).sum() for x in (before, after))
        found.append((p * np.log(p / q)).sum())
    np.testing.assert_allclose(metrics.kl, np.mean(found), rtol=1e-5)
    assert metrics.divergence == metrics.kl
    assert abs(metrics.kl - metrics.approx_kl) > 0.01
    without = PPOLoss()(policy(), seen)[1]
    assert without.kl is None
    assert without.divergence == without.approx_kl


def test_without_the_log_probabilities_the_true_divergence_is_refused():
    with pytest.raises(ValueError, match=r"true_kl=True.*a batch with log_probs"):
        PPOLoss(true_kl=True)(policy(), batch([-1.0, -1.0], [1.0, -1.0]))
