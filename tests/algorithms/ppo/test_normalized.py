"""Observations normalised by running statistics, which are arrays of PPO's network."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent.probes import Probe
from runs.export.test_export import (
    assert_onnx_plays,
    assert_stablehlo_plays,
    carries_of,
    first_positions,
    wanted,
)
from training.states import arrays, assert_same, assert_same_but_for_rounding

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    TrunkActorCritic,
    WithAuxiliaryHead,
    add_auxiliary_head,
    add_normalization,
    build_network,
    evaluator_of,
    unwrapped,
    update_moments,
)
from hackmatrix_rl.agent.precision import parameter_paths, precision
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs import compose, make_run_folder, run
from hackmatrix_rl.runs._described import describe_training
from hackmatrix_rl.runs.checkpoints import initial_settings, initial_weights
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.export import as_json
from hackmatrix_rl.system.errors import ConfigError

KEY = jax.random.key(1)
KEYS = jax.vmap(jax.random.key)(jnp.arange(2))
SIZES = {"num_envs": 8, "num_steps": 8, "num_minibatches": 1, "update_epochs": 1}
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


class Scaled(hm.CartPole):
    """CartPole in units that no network likes."""

    def reset(self, keys):
        return scaled(*super().reset(keys))

    def step(self, state, actions, keys):
        return scaled(*super().step(state, actions, keys))


def scaled(state, timestep):
    names = ("observation", "last_observation")
    seen = {name: 1e3 * getattr(timestep, name) + 1e3 for name in names}
    return state, replace(timestep, **seen)


ENV = Scaled(max_steps=12)


def ppo(member=0, network="mlp", environment=ENV, **changes):
    policy = build_network(network, environment.spec, width=8, key=jax.random.key(member))
    given = {**SIZES, "normalize_observations": True, **changes}
    return hm.PPO(environment, policy, **given)


def trained(algorithm, key=KEY, updates=2):
    trainer = hm.Trainer(algorithm)
    trainer.start(key)
    trainer.dispatch(updates)
    return trainer


@pytest.fixture(scope="module")
def shared():
    """One trainer, compiled once; each test starts it anew."""
    return hm.Trainer(ppo())


@pytest.fixture(scope="module")
def two(shared):
    """The policy after two updates."""
    shared.start(KEY)
    shared.dispatch(2)
    return jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, shared.policy)


def moments_of(policy):
    return getattr(policy, "headless", policy).moments.value


def test_the_moments_are_numpys_over_what_was_seen_and_integers_pass():
    draw = np.random.default_rng(0)
    spec = hm.EnvSpec(2, {"real": jax.ShapeDtypeStruct((3,), jnp.float32),
                          "code": jax.ShapeDtypeStruct((), jnp.int32)})  # fmt: skip
    policy = add_normalization(hm.MLPActorCritic(spec, width=4, key=KEY), spec)
    seen = draw.normal([1e3, 0.0, 7.0], [1.0, 1e-3, 0.0], (6, 5, 4, 3)).astype(np.float32)
    for rollout in seen:
        code = jnp.ones((5, 4), jnp.int32)
        policy = update_moments(policy, {"real": jnp.asarray(rollout), "code": code})
    moments = policy.moments.value["real"]
    flat = seen.reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(moments.mean, flat.mean(0), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, flat.var(0), rtol=1e-4, atol=1e-12)
    assert float(moments.count) == len(flat)
    assert policy.moments.value["code"] is None
    one = {"real": jnp.asarray([1e3 + 2, 1e6, 7.0]), "code": jnp.int32(9)}
    shown = policy.normalize(one)
    assert shown["code"] == 9
    np.testing.assert_allclose(shown["real"], [(1e3 + 2 - flat.mean(0)[0]) / flat.std(0)[0], 10, 0],
                               atol=1e-3)  # fmt: skip
    broken = moments.update(jnp.full((5, 4, 3), jnp.nan).at[..., 1].set(0.0))
    assert np.isfinite(broken.mean).all()
    assert float(broken.mean[0]) == float(moments.mean[0])


def test_each_rollout_is_added_after_it_was_learned_from(shared):
    trainer, seen = shared, []
    trainer.start(KEY)
    collect = eqx.filter_jit(trainer.algorithm.collect)
    for _ in range(2):
        rollout, _ = collect(trainer.policy, ENV, trainer.state.collector_state)
        seen.append(np.asarray(rollout.observation))
        # One minibatch: the policy that learns is the one that acted, with the same moments.
        assert abs(trainer.dispatch(1).learning["approx_kl"]) < 1e-9
        flat = np.concatenate(seen).reshape(-1, 4)
        moments = moments_of(trainer.policy)
        np.testing.assert_allclose(moments.mean, flat.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.variance, flat.var(0, dtype=np.float64), rtol=1e-3)
        assert float(moments.count) == len(flat)


class Own(hm.ActorCritic):
    """Neither an encoder nor a trunk."""

    layer: eqx.nn.Linear

    def __call__(self, observation, carry):
        found = self.layer(observation)
        return found[:3], found[3], carry


class OwnTrunk(TrunkActorCritic):
    """Features of the spec, in the dtype of the parameters."""

    spec: hm.EnvSpec = eqx.field(static=True)
    layer: eqx.nn.Linear
    heads: object

    def trunk(self, observation, carry):
        return self.layer(self.spec.encode(observation).flat), carry


BOARD = Probe({}, board=True).spec
OWN = eqx.nn.Linear(4, 4, key=KEY)


def network_of(name):
    if name == "own":
        return Own(OWN)
    if name == "own trunk":
        return OwnTrunk(BOARD, OWN, hm.MLPActorCritic(BOARD, width=4, depth=1, key=KEY).heads)
    return build_network(name, BOARD, width=8, key=KEY)


@pytest.mark.parametrize("name", ["mlp", "gru", "residual", "own", "own trunk"])
def test_a_network_sees_what_is_normalised_in_float32(name):
    network = network_of(name)
    policy = add_normalization(network, BOARD)
    assert parameter_paths(policy).keys() == parameter_paths(network).keys()
    assert unwrapped(policy) is network
    assert add_normalization(policy, BOARD) is policy
    draw = np.random.default_rng(0)
    seen = jnp.asarray(1e4 + draw.normal(size=(3, 2, 4)), jnp.float32)
    policy = update_moments(policy, seen)
    if name != "residual":  # one of each kind of wrapper
        hm.check_policy(policy, BOARD)
    narrow, plain = map(precision("bf16").cast_to_compute, (policy, network))
    assert moments_of(narrow).mean.dtype == jnp.float32
    here = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), network.initial_carry())
    step = eqx.filter_jit(lambda net, seen: evaluator_of(net).act_step(seen, here, ())[:3])
    for each, other in ((policy, network), (narrow, plain)):
        outputs = step(each, seen[0]), step(other, jax.vmap(policy.normalize)(seen[0]))
        for one, same in zip(*map(jax.tree.leaves, outputs), strict=True):
            np.testing.assert_allclose(one, same, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_a_training_resumes_in_the_same_bits(tmp_path, network, shared):
    trainer = shared if network == "mlp" else hm.Trainer(ppo(network=network))
    trainer.start(KEY)
    trainer.dispatch(1)
    trainer.save(tmp_path / "state")
    trainer.dispatch(1)
    straight = arrays(trainer.state)
    trainer.load(tmp_path / "state")
    trainer.dispatch(1)
    for one, same in zip(arrays(trainer.state), straight, strict=True):
        np.testing.assert_array_equal(one, same)


def test_two_devices_have_the_moments_of_all_games(two):
    many = trained(ppo(mesh="data=2"))
    assert float(moments_of(many.policy).count) == 2 * 8 * 8
    assert_same_but_for_rounding(many.policy, two, rtol=1e-3, atol=1e-4)


@pytest.mark.nightly
def test_parameters_cut_over_devices_and_averages_have_the_same_moments():
    plain = trained(ppo(network="residual"), updates=1)
    cut = trained(ppo(network="residual", mesh="fsdp=2", ema=0.9), updates=1)
    assert_same_but_for_rounding(moments_of(cut.policy), moments_of(plain.policy), **ROUNDING)


def test_each_member_of_a_population_has_its_own(shared):
    together = trained(hm.Population([ppo(1), ppo()]), KEYS)
    policies = [together.algorithm.member(together.state, k).learner.policy for k in range(2)]
    shared.start(KEYS[1])
    shared.dispatch(2)
    assert_same_but_for_rounding(policies[1], shared.policy, **ROUNDING)
    means = [np.asarray(moments_of(each).mean) for each in policies]
    assert not np.array_equal(*means)


def test_a_run_keeps_its_moments_and_another_training_starts_from_them(tmp_path):
    given = {
        **{"algorithm": "ppo", "env": "cartpole", "num_envs": 8, "num_steps": 8, "width": 8},
        **{"total_timesteps": 128, "updates_per_dispatch": 1, "eval_episodes": 0, "mesh": "data=1"},
    }
    path = str(tmp_path / "run")
    config = make_config("debug", {**given, "normalize_observations": True, "run_dir": path})
    trainer = compose(config)
    assert describe_training(trainer, None)["normalize_observations"]
    run(config, trainer, make_run_folder(config), displays=())
    loaded = hm.load(path)
    assert_same(loaded.policy, trainer.policy)
    assert float(moments_of(loaded.policy).count) == 128
    # Nothing updates them where nothing asks for it.
    assert not hm.PPO(loaded.environment, loaded.policy, **SIZES).normalize_observations

    assert initial_settings(path, None)["normalize_observations"]
    started = compose(replace(config, init=path, run_dir=None), read_init=True)
    assert_same(started.policy, loaded.policy)
    imitation = {"algorithm": "imitation", "env": "cartpole", "teacher": "random"}
    for other, advice in (
        (given, "Use --normalize-observations"),
        (imitation, "which --algorithm imitation lacks"),
    ):
        other = make_config("debug", {**other, "network": "mlp", "width": 8, "init": path})
        with pytest.raises(ConfigError, match=f"trained with --normalize-observations, .*{advice}"):
            initial_weights(other, loaded.policy)


class Frozen(ActorCritic):
    """A network behind the numbers of a training, which nothing knows as such."""

    network: ActorCritic
    mean: np.ndarray
    std: np.ndarray

    def initial_carry(self):
        return self.network.initial_carry()

    def __call__(self, observation, carry):
        return self.network(jnp.clip((observation - self.mean) / self.std, -10, 10), carry)


def test_an_evaluation_plays_with_the_moments_of_the_training(two):
    moments = jax.tree.map(np.asarray, moments_of(two))
    by_hand = Frozen(unwrapped(two), moments.mean, np.sqrt(moments.variance + np.float32(1e-8)))
    given = {"episodes": 64, "key": KEY, "greedy": True, "record": True}
    found, right = (hm.evaluate(policy, ENV, **given) for policy in (two, by_hand))
    for ours, theirs in zip(found.actions, right.actions, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_export_plays_as_the_agent_and_json_refuses(two):
    agent = PolicyAgent(two, value_scale=RunningScale(), gamma=0.99)
    timestep = first_positions(ENV, 20)
    right = wanted(agent, timestep, carries_of(agent, 20))
    for plays in (assert_onnx_plays, assert_stablehlo_plays):
        plays(agent, ENV, timestep, right)
    with pytest.raises(ConfigError, match=r"not NormalizedTrunk\. Use --format onnx"):
        as_json(agent, ENV)


def test_an_auxiliary_head_stays_outermost():
    environment = hm.HackMatrix(observation="classic")
    network = hm.MLPActorCritic(environment.spec, width=4, depth=1, key=KEY)
    policy = add_auxiliary_head(network, environment.spec, key=KEY)
    policy = add_normalization(policy, environment.spec)
    assert isinstance(policy, WithAuxiliaryHead)
    assert unwrapped(policy) is network
    seen = jax.tree.map(lambda leaf: jnp.ones((2, 3, *leaf.shape)), environment.spec.observation)
    assert moments_of(update_moments(policy, seen)).player.count == 6


class OwnDistribution(Own):
    """A network that prefers every action alike."""

    def distribution(self, parameters, mask):
        return hm.MaskedCategorical(jnp.zeros_like(parameters), mask)


def test_a_network_keeps_its_own_distribution():
    spec = hm.CartPole().spec
    policy = add_normalization(OwnDistribution(OWN), spec)
    pi = policy.distribution(jnp.array([1.0, 2.0]), spec.actions.every())
    np.testing.assert_allclose(pi.probs, 0.5)


def test_cartpole_in_odd_units_is_learned_with_it_and_not_without():
    def final(normalizes):
        environment = Scaled(max_steps=200)
        policy = hm.MLPActorCritic(environment.spec, width=32, key=jax.random.key(0))
        sizes = {"num_envs": 16, "num_steps": 64, "num_minibatches": 4, "update_epochs": 4}
        algorithm = hm.PPO(
            environment, policy, learning_rate=2e-3, normalize_observations=normalizes, **sizes
        )
        return trained(algorithm, updates=40).dispatch(5).episode["return"]

    assert final(True) > 100
    assert final(False) < 60
