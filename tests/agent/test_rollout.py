from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent import probes
from agent.builders import random_batch, random_rollout
from hackmatrix_rl.agent import GAE, Batch, MaskedCategorical, RolloutCollector, start_collector
from hackmatrix_rl.agent.networks import (
    ConvActorCritic,
    GRUActorCritic,
    MLPActorCritic,
    evaluator_of,
)
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.env import CartPole, env_keys

NUM_ENVS, NUM_STEPS = 8, 24
NETWORKS = {
    "mlp": lambda spec: MLPActorCritic(spec, width=32, key=jax.random.key(0)),
    "conv": lambda spec: ConvActorCritic(spec, channels=4, width=16, key=jax.random.key(0)),
    "gru": lambda spec: GRUActorCritic(spec, width=16, key=jax.random.key(0)),
}


def chain(board: bool = False) -> probes.Probe:
    """Episodes that end in both ways, and an illegal action."""
    return probes.Probe(
        {
            (0, None): (1.0, 1, probes.GOES_ON),
            (0, 1): (2.0, 2, probes.GOES_ON),
            (1, None): (3.0, 2, probes.TERMINATES),
            (1, 0): (4.0, 3, probes.TRUNCATES),
            (2, None): (5.0, 3, probes.GOES_ON),
            (3, None): (6.0, 0, probes.TRUNCATES),
        },
        starts=(0, 2),
        illegal=((0, 2), (2, 0)),
        board=board,
    )


def decisive(policy):
    """The policy with larger logits: the first one is nearly uniform."""
    return eqx.tree_at(lambda p: p.heads.policy.weight, policy, replace_fn=lambda w: 100 * w)


@eqx.filter_jit
def collect(policy, environment, collector_state, num_steps=NUM_STEPS, name="f32"):
    return RolloutCollector(num_steps)(
        policy, environment, collector_state, precision=precision(name)
    )


@cache
def collected(network="mlp", name="f32", num_envs=NUM_ENVS):
    environment = chain(board=network == "conv")
    policy = decisive(NETWORKS[network](environment.spec))
    collector_state = start_collector(environment, policy, env_keys(jax.random.key(1), num_envs))
    rollout, after = collect(policy, environment, collector_state, name=name)
    return environment, policy, collector_state, rollout, after


def ratio(policy, batch, name):
    @eqx.filter_jit
    def evaluate(policy, batch):
        policy = precision(name).cast_to_compute(policy)
        sequences = batch.observation, batch.initial_carry, batch.done
        logits, value = evaluator_of(policy).unroll(*sequences)
        log_prob = MaskedCategorical(logits, batch.mask).log_prob(batch.action)
        return jnp.exp(log_prob - batch.log_prob), value

    return evaluate(policy, batch)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("name", "bound"), [("f32", 1e-5), ("bf16", 0.03)])
def test_the_ratio_of_the_first_minibatch_is_one(network, name, bound):
    _, policy, _, rollout, _ = collected(network, name)
    assert rollout.done.any(axis=0).all()
    batch = Batch.from_rollout(rollout, GAE()(rollout))
    some = jnp.array([5, 0, 3], jnp.int32)
    found, value = ratio(policy, batch.select(some), name)
    np.testing.assert_allclose(found, 1.0, rtol=0, atol=bound)
    np.testing.assert_allclose(value, rollout.value[:, some], rtol=bound, atol=bound)


def test_actions_are_legal_and_the_mask_is_the_one_that_was_acted_under():
    environment, _, _, rollout, _ = collected()
    state = jnp.argmax(rollout.observation, axis=-1)
    np.testing.assert_array_equal(rollout.mask, environment.legal[state])
    chosen = jnp.take_along_axis(rollout.mask, rollout.action[..., None], axis=-1)
    assert chosen.all()


def test_two_rollouts_are_one_long_one():
    environment, policy, collector_state, rollout, after = collected("gru")
    first, between = collect(policy, environment, collector_state, num_steps=NUM_STEPS // 2)
    second, end = collect(policy, environment, between, num_steps=NUM_STEPS // 2)
    for name in ("action", "reward", "value", "done", "observation"):
        both = jnp.concatenate([getattr(first, name), getattr(second, name)])
        np.testing.assert_allclose(both, getattr(rollout, name), rtol=1e-6)
    assert end.step == after.step
    np.testing.assert_allclose(end.carry, after.carry, rtol=1e-6, atol=1e-7)


def test_environments_draw_each_their_own():
    rollout = collected()[3]
    assert len({tuple(column) for column in np.asarray(rollout.action).T}) == NUM_ENVS


def test_a_truncated_step_has_the_value_of_the_position_before_the_reset():
    environment, policy, _, rollout, _ = collected()
    state = jnp.argmax(rollout.observation, axis=-1)
    reached = environment.shown[environment.leads_to[state, rollout.action]]
    _, value, _ = jax.vmap(jax.vmap(policy, in_axes=(0, None)), in_axes=(0, None))(reached, ())
    assert rollout.truncated.any()
    expected = jnp.where(rollout.truncated, value, 0.0)
    np.testing.assert_allclose(rollout.bootstrap_value, expected, rtol=1e-5, atol=1e-6)


def test_a_network_with_memory_sees_the_last_position_with_its_memory_before_the_reset():
    _, policy, collector_state, rollout, _ = collected("gru")
    environment = chain()
    carry = collector_state.carry
    for step in range(NUM_STEPS):
        _, _, carry = jax.vmap(policy)(rollout.observation[step], carry)
        state = jnp.argmax(rollout.observation[step], axis=-1)
        reached = environment.shown[environment.leads_to[state, rollout.action[step]]]
        _, value, _ = jax.vmap(policy)(reached, carry)
        expected = jnp.where(rollout.truncated[step], value, 0.0)
        np.testing.assert_allclose(rollout.bootstrap_value[step], expected, rtol=1e-4, atol=1e-5)
        carry = jnp.where(rollout.done[step][:, None], 0.0, carry)


def test_episode_sums_add_up():
    environment, _, _, rollout, _ = collected()
    reward, done = np.asarray(rollout.reward), np.asarray(rollout.done)
    total, length, count, last_states = 0.0, 0, 0, 0.0
    state = np.asarray(jnp.argmax(rollout.observation, axis=-1))
    for env in range(NUM_ENVS):
        begun = 0
        for step in range(NUM_STEPS):
            if done[step, env]:
                total += reward[begun : step + 1, env].sum()
                length += step + 1 - begun
                count += 1
                last_states += int(
                    environment.leads_to[state[step, env], rollout.action[step, env]]
                )
                begun = step + 1
    sums = rollout.episodes
    assert (sums.count, sums.total_reward, sums.length) == (count, total, length)
    assert sums.extra["last_state"] == last_states
    assert sums.terms["all"] == reward.sum()


def test_an_environment_that_never_truncates_compiles_no_second_network():
    class Endless(CartPole):
        @property
        def truncates(self):
            return False

    def products(environment):
        policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
        collector_state = start_collector(environment, policy, env_keys(jax.random.key(1), 4))
        jaxpr = eqx.filter_make_jaxpr(RolloutCollector(4))(policy, environment, collector_state)[0]
        return str(jaxpr).count("dot_general")

    assert products(CartPole()) == products(Endless()) + 4


def test_a_rollout_has_at_least_one_step():
    with pytest.raises(ValueError, match="num_steps"):
        RolloutCollector(0)


PROBE = probes.observation_matters()
POLICY = GRUActorCritic(PROBE.spec, width=4, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("made", "num_envs"),
    [
        (random_rollout(0, num_steps=7, num_envs=5), 5),
        (random_batch(POLICY, PROBE.spec, num_steps=7, num_envs=5), 5),
        (start_collector(PROBE, POLICY, env_keys(jax.random.key(0), 5)), 5),
    ],
    ids=["rollout", "batch", "collector"],
)
def test_the_axis_of_environments_is_where_a_field_says(made, num_envs):
    axes = made.environment_axes()
    assert axes.keys() == vars(made).keys()
    for name, axis in axes.items():
        for leaf in jax.tree.leaves(getattr(made, name)):
            if axis is None:
                assert num_envs not in leaf.shape
            else:
                assert leaf.shape[axis] == num_envs, name
                assert axis == 0 or leaf.shape[0] == 7
