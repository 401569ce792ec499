"""Value heads that predict a distribution, and what they learn by."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hackmatrix_rl.agent import PPOLoss
from hackmatrix_rl.agent.networks import (
    VALUE_HEADS,
    ActorCritic,
    CategoricalValue,
    build_network,
    with_value_head,
)
from hackmatrix_rl.algorithms.imitation import CloneLoss
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.system.errors import ConfigError

CENTRES = np.linspace(-10, 10, 101)
PLAIN = build_network("mlp", CartPole().spec, width=8, key=jax.random.key(0))


@pytest.mark.parametrize("smoothing", [0.75, None])
def test_a_target_becomes_a_distribution_whose_mean_it_is(smoothing):
    head = CategoricalValue(3, smoothing=smoothing, key=jax.random.key(0))
    targets = jnp.asarray([-9.0, -0.37, 0.0, 0.1, 2.718, 8.99], jnp.float32)
    found = jax.vmap(head.distribution)(targets)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(found @ CENTRES, targets, atol=1e-3)
    used = np.sum(np.asarray(found) > 1e-3, axis=1)
    assert used.max() <= 2 if smoothing is None else used.min() >= 4


@pytest.mark.parametrize("smoothing", [0.75, None])
def test_a_target_beyond_the_bins_is_the_outermost_value(smoothing):
    head = CategoricalValue(3, smoothing=smoothing, key=jax.random.key(0))
    for beyond, end in ((99.0, 10.0), (-99.0, -10.0)):
        np.testing.assert_array_equal(
            head.distribution(jnp.float32(beyond)), head.distribution(jnp.float32(end))
        )
    assert head.distribution(jnp.float32(99.0)) @ CENTRES > 9.8


@pytest.mark.parametrize("smoothing", [0.75, None])
def test_it_learns_the_mean_of_its_targets(smoothing):
    """Of a rare victory, say: the value is the mean, not the most frequent target."""
    head = CategoricalValue(2, smoothing=smoothing, key=jax.random.key(0))
    hidden = jnp.ones((10, 2), jnp.float32)
    targets = jnp.asarray([8.0] + 9 * [-1.0], jnp.float32)
    assert abs(head(hidden[0])) < 0.1
    optimizer = optax.adam(0.1)

    @eqx.filter_jit
    def learn(head):
        def step(_, carry):
            head, state = carry
            gradient = jax.grad(lambda head: jnp.mean(jax.vmap(head.loss)(hidden, targets)))(head)
            with jax.numpy_dtype_promotion("standard"):
                change, state = optimizer.update(gradient, state, head)
            return eqx.apply_updates(head, change), state

        return jax.lax.fori_loop(0, 400, step, (head, optimizer.init(head)))[0]

    assert learn(head)(hidden[0]) == pytest.approx(-0.1, abs=0.02)


@pytest.mark.parametrize("network", ["mlp", "gru", "residual"])
def test_a_network_with_it_acts_as_before(network):
    spec = CartPole().spec
    plain = build_network(network, spec, width=8, key=jax.random.key(0))
    seen, carry = jnp.ones(4, jnp.float32), plain.initial_carry()
    for kind in VALUE_HEADS:
        changed = with_value_head(plain, kind, key=jax.random.key(1))
        assert isinstance(changed, ActorCritic)
        logits, value, _ = changed(seen, carry)
        np.testing.assert_array_equal(logits, plain(seen, carry)[0])
        assert value.shape == ()
        back = with_value_head(changed, "scalar", key=jax.random.key(1))
        assert jax.tree.structure(back) == jax.tree.structure(plain)
        # What `--critic-warmup-timesteps` and formats of parts are told by.
        named = jax.tree_util.tree_leaves_with_path(eqx.filter(changed, eqx.is_array))
        names = [jax.tree_util.keystr(path) for path, _ in named]
        assert sum(name.startswith(".heads.value") for name in names) == 2


def batch_of(network):
    from agent.test_loss import batch

    seen = jnp.arange(8, dtype=jnp.float32).reshape(2, 1, 4) / 8
    made = batch([0.0, 0.0], [0.0, 0.0], target=[2.0, -3.0], mask=jnp.ones((2, 1, 2), bool))
    return eqx.tree_at(
        lambda b: (b.observation, b.initial_carry), made, (seen, network.initial_carry())
    )


@pytest.mark.parametrize("loss", [PPOLoss(vf_coef=1.0, ent_coef=0.0), CloneLoss(vf_coef=1.0)])
def test_the_losses_minimise_what_the_head_asks_for(loss):
    changed = with_value_head(PLAIN, "hl-gauss", key=jax.random.key(1))
    batch = batch_of(PLAIN)
    _, metrics = loss(changed, batch)
    hidden = [changed.trunk(seen[0], ())[0] for seen in batch.observation]
    expected = [
        changed.heads.value.loss(each, target[0])
        for each, target in zip(hidden, batch.value_target, strict=True)
    ]
    assert metrics.value_loss == pytest.approx(float(np.mean(expected)), rel=1e-5)
    assert loss(PLAIN, batch)[1].value_loss != metrics.value_loss


def test_a_clip_of_the_value_plain_returns_and_unknown_heads_are_refused():
    changed = with_value_head(PLAIN, "two-hot", key=jax.random.key(1))
    with pytest.raises(ValueError, match=r"value_clip=0.2 clips squared errors"):
        PPOLoss(value_clip=0.2)(changed, batch_of(PLAIN))
    with pytest.raises(ConfigError, match=r"--value-clip 0.2 clips squared errors"):
        PPOConfig(value_head="two-hot", value_clip=0.2)
    with pytest.raises(ConfigError, match=r"Use --value-scale standard or compressed"):
        PPOConfig(value_head="hl-gauss", value_scale="none")
    with pytest.raises(ValueError, match="choose one of scalar, hl-gauss, two-hot"):
        with_value_head(PLAIN, "gauss", key=jax.random.key(1))
