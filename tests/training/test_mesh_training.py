"""Training on 1, 2 and 8 devices: the same games, the same minibatches, the same policy."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent.builders import OwnLoss
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Batch, MaskedCategorical, PPOLoss
from hackmatrix_rl.agent.networks import GRUActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, parameters_of
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import BLOCK, CartPole, env_keys, frontier
from hackmatrix_rl.games.hackmatrix import GameConfig
from hackmatrix_rl.system import bytes_of
from hackmatrix_rl.training import GradientStep, Minibatches, Trainer
from hackmatrix_rl.training.compiled import collectives
from hackmatrix_rl.training.sharding import (
    BY_STEP_AND_ENVIRONMENT,
    fsdp_shardings,
    place,
    replicated_shardings,
)

from .states import arrays, assert_close, assert_same

pytestmark = pytest.mark.devices

KEY = jax.random.key(7)
SMALL = GameConfig(max_enemies=4, max_transmissions=4, history=2)
MESHES = ["data=1", "data=2", "data=8", "data=4,fsdp=2"]


def cartpole(mesh: str, network=hm.MLPActorCritic, **changes) -> Trainer:
    environment = CartPole(max_steps=12)
    policy = network(environment.spec, width=64, key=jax.random.key(0))
    settings = {"num_envs": 32, "num_steps": 16, "num_minibatches": 2, "update_epochs": 2}
    return Trainer(PPO(environment, policy, mesh=hm.mesh(mesh), **{**settings, **changes}))


def hackmatrix(mesh: str) -> Trainer:
    environment = hm.HackMatrix(max_steps=12)
    policy = hm.MLPActorCritic(environment.spec, width=8, depth=1, key=jax.random.key(0))
    return Trainer(
        PPO(environment, policy, mesh=hm.mesh(mesh), num_envs=32, num_steps=24, num_minibatches=2)
    )


def shardings(tree) -> list[jax.sharding.Sharding]:
    return [leaf.sharding for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def first_rollout(trainer: Trainer):
    """What the devices do from the first reset on, and the compiled program that did it."""
    update, policy = trainer.algorithm, trainer.policy
    weights, rest = eqx.partition(policy, eqx.is_array)

    def program(key, weights):
        policy = eqx.combine(weights, rest)
        collect, keys = update.collect, env_keys(key, trainer.algorithm.sizes.num_envs)
        collector_state = collect.start(policy, update.environment, keys)
        rollout, after = collect(policy, update.environment, collector_state)
        return vars(rollout), after

    compiled = jax.jit(program).lower(KEY, weights).compile()
    given = place((KEY, weights), replicated_shardings(trainer.mesh, (KEY, weights)))
    return compiled(*given), compiled.as_text()


@pytest.fixture(
    scope="module", params=[cartpole, pytest.param(hackmatrix, marks=pytest.mark.nightly)]
)
def rollouts(request):
    """By number of devices: the first rollout and what came after it, and the program."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", request.param is hackmatrix)
    yield {n: first_rollout(request.param(f"data={n}")) for n in (1, 2, 8)}
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.parametrize("devices", [2, 8])
def test_the_first_games_are_the_same_on_any_mesh(rollouts, devices):
    (one, one_after), _ = rollouts[1]
    (many, many_after), _ = rollouts[devices]
    played = ("observation", "mask", "action", "reward", "terminated", "truncated")
    assert np.asarray(one["terminated"]).any()
    assert np.asarray(one["truncated"]).any()
    assert_same([one[name] for name in played], [many[name] for name in played])
    assert_same(one_after, many_after)
    for name in ("log_prob", "value", "last_value", "bootstrap_value"):
        np.testing.assert_allclose(one[name], many[name], rtol=1e-5, atol=1e-6)
    assert_close(one["episodes"], many["episodes"], rtol=1e-5)


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_devices_send_nothing_while_they_play(rollouts, devices):
    (rollout, after), program = rollouts[devices]
    sent = collectives(program, devices)
    sums = 0 if devices == 1 else bytes_of(rollout["episodes"])
    assert sum(each.times * each.result_bytes for each in sent) == sums, "of episodes alone"
    assert {each.kind for each in sent} <= {"all-reduce"}
    num_steps = rollout["action"].shape[0]
    assert rollout["action"].sharding.shard_shape((num_steps, 32)) == (num_steps, 32 // devices)
    assert after.keys.sharding.shard_shape((32,)) == (32 // devices,)


def by_key_alone(self: MaskedCategorical, key):
    """A legal action that does not depend on the probabilities."""
    return jax.random.categorical(key, jnp.where(self.support, 0.0, -jnp.inf)).astype(jnp.int32)


@pytest.fixture(scope="module")
def replayed():
    """By mesh, three updates in which all play the same actions, whatever the policy says.

    Sums in another order differ in the last bit, and a draw from probabilities that differ in
    the last bit may, once in a while, be another action.
    """

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MaskedCategorical, "sample", by_key_alone)
        trainers = {mesh: cartpole(mesh) for mesh in MESHES}
        for trainer in trainers.values():
            trainer.start(KEY)
        reports = {mesh: trainer.dispatch(3) for mesh, trainer in trainers.items()}
    return trainers, reports


@pytest.mark.parametrize("mesh", MESHES[1:])
def test_updates_agree_on_any_mesh_where_the_actions_are_the_same(replayed, mesh):
    trainers, reports = replayed
    one, many = trainers[MESHES[0]].state, trainers[mesh].state
    assert_same(one.collector_state, many.collector_state)
    assert_close(one.learner, many.learner, rtol=1e-3, atol=1e-5)
    moved = arrays(one.learner.policy)[0] - arrays(trainers[mesh]._policy)[0]
    assert np.abs(moved).max() > 1e-3, "nothing was learned that could differ"
    one_said, many_said = (reports[name].as_dict() for name in (MESHES[0], mesh))
    for name in one_said.keys() - {"seconds", "steps_per_second"}:
        assert many_said[name] == pytest.approx(one_said[name], rel=1e-3, abs=1e-5), name


@pytest.mark.nightly
def test_saved_positions_and_the_games_from_them_agree_on_any_mesh(monkeypatch):
    monkeypatch.setattr(MaskedCategorical, "sample", by_key_alone)
    environment = frontier(hm.HackMatrix(SMALL, max_steps=40), share=0.5)
    policy = hm.MLPActorCritic(environment.spec, width=8, depth=1, key=jax.random.key(0))
    sizes = {"num_envs": 2 * BLOCK, "num_steps": 128, "num_minibatches": 2, "update_epochs": 1}
    found = []
    for devices in ("data=1", "data=2"):
        trainer = Trainer(PPO(environment, policy, mesh=hm.mesh(devices), **sizes))
        trainer.start(KEY)
        trainer.dispatch(1)
        found.append(trainer.state.collector_state)
    one, two = found
    assert one.environment.bank.filled.any()
    assert not one.environment.is_new_game.all()
    filled = two.environment.bank.filled
    assert filled.sharding.shard_shape(filled.shape)[0] == 1, "a device holds its own block"
    assert_same(one, two)


def test_parameters_and_moments_are_cut_over_fsdp_and_whole_over_data(replayed):
    trainers, _ = replayed
    learner = trainers["data=4,fsdp=2"].state.learner
    weight = learner.policy.layers[1].weight
    like = [leaf for leaf in jax.tree.leaves(learner.optimizer_state) if leaf.shape == weight.shape]
    assert len(like) == 2
    for leaf in (weight, *like):
        assert leaf.sharding.spec == P("fsdp")
        assert leaf.addressable_shards[0].data.shape == (32, 64)
    assert learner.policy.layers[0].weight.sharding.is_fully_replicated, "too small to be cut"
    assert all(
        leaf.sharding.is_fully_replicated
        for leaf in jax.tree.leaves(trainers["data=8"].state.learner)
        if eqx.is_array(leaf)
    )


@pytest.mark.parametrize(
    ("mesh", "network", "parts"),
    [
        ("data=8", hm.MLPActorCritic, 1),
        ("data=8", hm.MLPActorCritic, 2),
        ("data=8", GRUActorCritic, 1),
        ("data=4,fsdp=2", hm.MLPActorCritic, 1),
        ("data=4,fsdp=2", GRUActorCritic, 1),
    ],
)
def test_an_update_sends_gradients_and_totals_and_no_games(mesh, network, parts):
    trainer = cartpole(mesh, network, grad_accum=parts)
    program = trainer.lower().compile().as_text()
    shapes = [leaf.shape for leaf in jax.tree.leaves(parameters_of(trainer.policy))]
    known = {()} | {without_ones(shape) for shape in shapes}
    known |= {shape[::-1] for shape in known}  # the compiler may lay them out otherwise
    found = collectives(program, trainer.mesh.size)
    kinds = {each.kind for each in found}
    assert kinds == ({"all-reduce"} if mesh == "data=8" else {"all-reduce", "all-gather"})
    for each in found:
        assert {without_ones(shape) for _, shape in each.arrays} <= known, each
    # Each of four gradient steps adds up the gradient once: not at every part of the minibatch,
    # nor at every step of the way back through a memory.
    reduced = sum(
        each.times * sum(math.prod(shape) for _, shape in each.arrays if shape)
        for each in found
        if each.kind == "all-reduce"
    )
    assert reduced == 4 * sum(math.prod(shape) for shape in shapes)


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length > 1)


def test_each_block_of_neighbours_deals_one_environment_to_each_minibatch():
    order = np.asarray(Minibatches(4, 3)(32, key=KEY))
    assert order.shape == (12, 8)
    np.testing.assert_array_equal(order // 4, np.tile(np.arange(8), (12, 1)))
    for epoch in order.reshape(3, 32):
        assert sorted(epoch) == list(range(32))
    places = order.reshape(3, 4, 8) % 4
    assert len(np.unique(places, axis=2)[0, 0]) > 1
    assert not np.array_equal(places[0], places[1]), "each pass deals anew"
    assert not np.array_equal(places[0, :, 0], places[0, :, 1]), "each block has its own order"


def test_the_dealing_of_a_block_does_not_depend_on_how_many_there_are():
    few, many = (np.asarray(Minibatches(4, 3)(n, key=KEY)) for n in (16, 64))
    np.testing.assert_array_equal(few, many[:, :4])


@pytest.mark.parametrize("loss", [PPOLoss(), OwnLoss()], ids=["prepared", "unprepared"])
def test_a_gradient_is_the_same_on_any_mesh(loss):
    trainer = cartpole("data=1")
    trainer.start(KEY)
    update, state = trainer.algorithm, trainer.state
    rollout, _ = eqx.filter_jit(update.collect)(
        state.learner.policy, update.environment, state.collector_state
    )
    batch = Batch.from_rollout(rollout, update.estimate(rollout))
    found = []
    for name in ("data=1", "data=4,fsdp=2"):
        mesh = hm.mesh(name)
        cut, whole = NamedSharding(mesh, BY_STEP_AND_ENVIRONMENT), NamedSharding(mesh, P())
        by_environment = jax.tree.map(lambda leaf, cut=cut: cut, batch)
        by_environment = eqx.tree_at(lambda b: b.number, by_environment, whole)
        learner = place(state.learner, fsdp_shardings(mesh, state.learner))
        step = GradientStep(update.optimization.optimizer, FLOAT32, mesh)
        given = learner, loss, place(batch, by_environment)
        found.append(eqx.filter_jit(step.gradient)(*given)[:2])
    assert_close(*found, rtol=1e-4, atol=1e-6)
    assert np.abs(arrays(found[0][0])[0]).max() > 1e-3


@pytest.mark.parametrize(("before", "after"), [("data=8", "data=1"), ("data=1", "data=4,fsdp=2")])
def test_a_state_of_another_mesh_is_put_onto_this_one(replayed, before, after):
    trainers, _ = replayed
    state = trainers[before].state
    trainer = cartpole(after)
    trainer.state = state
    assert_same(trainer.state, state)
    assert shardings(trainer.state) == shardings(trainers[after].state)
    kept = arrays(state)
    trainer.dispatch(1)
    assert_same(state, kept)


def test_the_shapes_of_a_state_are_known_before_there_is_one(replayed):
    trainers, _ = replayed
    trainer = trainers["data=4,fsdp=2"]
    shapes = jax.tree.leaves(cartpole("data=4,fsdp=2").abstract_state())
    for shape, leaf in zip(shapes, jax.tree.leaves(trainer.state), strict=True):
        if eqx.is_array(leaf):
            assert (shape.shape, shape.dtype) == (leaf.shape, leaf.dtype)
            assert shape.sharding == leaf.sharding


def test_the_policy_comes_back_whole_and_on_one_device(replayed):
    trainers, _ = replayed
    policy = trainers["data=4,fsdp=2"].policy
    assert_same(policy, trainers["data=4,fsdp=2"].state.learner.policy)
    assert all(
        len(leaf.devices()) == 1 for leaf in jax.tree.leaves(eqx.filter(policy, eqx.is_array))
    )
    policy(jnp.zeros(4), policy.initial_carry())


def test_what_does_not_divide_over_the_mesh_is_an_error_at_construction():
    with pytest.raises(ValueError, match="num_envs 20 does not divide over 8 devices"):
        cartpole("data=8", num_envs=20)


def test_an_update_of_the_game_can_be_lowered_for_a_tpu():
    trainer = hackmatrix("data=8")
    lowered = trainer.lower(platforms=("tpu",))
    assert "stablehlo.while" in lowered.as_text()
