"""Nothing but a network's layers is computed in 16 bits: the traced update is read."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent import probes
from agent.builders import ON_ANY_BOARD, Closed, OwnLoss
from agent.probes import make_trainer

from hackmatrix_rl.agent import GAE, AuxiliaryLoss, PPOLoss, RunningScale
from hackmatrix_rl.agent.networks import (
    GRUActorCritic,
    MLPActorCritic,
    TrunkActorCritic,
    _evaluator,
    add_auxiliary_head,
    build_network,
)
from hackmatrix_rl.agent.precision import parameters_of, precision
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.sharding import mesh as make_mesh

from .narrow import narrow_arithmetic, narrow_products, traced_update

pytestmark = pytest.mark.devices

BOARD = probes.Probe({(0, None): (1.0, 1, probes.TRUNCATES)}, board=True)


def traced(policy="mlp", name="bf16", **changes):
    if isinstance(policy, str):
        policy = build_network(policy, BOARD.spec, width=8, key=jax.random.key(0))
    settings = {"value_scale": RunningScale(compress=True), "precision": precision(name)}
    return traced_update(make_trainer(BOARD, policy, **{**settings, **changes}))


@pytest.mark.parametrize("name", ["bf16", "f16"])
@pytest.mark.parametrize("network", ON_ANY_BOARD)
def test_all_but_the_layers_is_float32(network, name):
    program = traced(network, name, loss=PPOLoss(value_clip=0.2), target_kl=0.1)
    assert narrow_arithmetic(program) == set()
    # And the layers are not: forward where acting and learning, and backward.
    assert narrow_products(program) >= 6


@pytest.mark.parametrize("remat", ["blocks", "full"])
def test_neither_what_is_computed_again_nor_parts_nor_an_auxiliary_loss_are_narrow(remat):
    spec, key = BOARD.spec, jax.random.key(0)
    policy = add_auxiliary_head(build_network("residual", spec, width=8, key=key), spec, key=key)
    loss = PPOLoss(auxiliary=AuxiliaryLoss(0.5, every=2))
    program = traced(policy, loss=loss, grad_accum=2, remat=remat)
    assert narrow_arithmetic(program) == set()


def test_under_f32_nothing_is_narrow_and_parts_in_float32_are_computed_in_it():
    assert narrow_products(traced(name="f32")) == 0
    whole = traced()
    parts = traced(precision=precision("bf16", {".layers*": "f32"}))
    assert narrow_arithmetic(parts) == set()
    assert 0 < narrow_products(parts) < narrow_products(whole)


def narrow_softmax(loss, metrics, policy, batch):
    logits, _ = policy.unroll(batch.observation, batch.initial_carry, batch.done)
    narrow = jax.nn.log_softmax(logits.astype(jnp.bfloat16))
    return loss + jnp.mean(narrow.astype(jnp.float32)), metrics


def narrow_mean(loss, metrics, policy, batch):
    total = jax.lax.reduce_sum(batch.advantage.astype(jnp.bfloat16), (0, 1))
    return loss + total.astype(jnp.float32), metrics


@pytest.mark.parametrize(
    ("change", "names"),
    [(narrow_softmax, {"exp", "log", "reduce_max", "sub"}), (narrow_mean, {"reduce_sum"})],
)
def test_a_loss_in_bfloat16_is_found(change, names):
    found = narrow_arithmetic(traced(loss=OwnLoss(change=change)))
    assert names <= found


class NarrowBias(TrunkActorCritic):
    """Adds its biases in the dtype of the weights: their gradients are sums over the batch."""

    network: MLPActorCritic
    heads: eqx.Module

    def __init__(self, network):
        self.network, self.heads = network, network.heads

    def trunk(self, observation, carry):
        hidden = self.network.encode(observation).ravel()
        for layer in self.network.layers:
            hidden = jax.nn.relu(hidden.astype(layer.weight.dtype) @ layer.weight + layer.bias)
        return hidden, carry


def test_a_sum_of_gradients_in_bfloat16_is_found():
    policy = NarrowBias(MLPActorCritic(BOARD.spec, width=8, key=jax.random.key(0)))
    assert narrow_arithmetic(traced(policy)) == {"reduce_sum"}


def test_a_loop_that_sums_gradients_in_bfloat16_is_found(monkeypatch):
    policy = Closed(GRUActorCritic(BOARD.spec, width=8, key=jax.random.key(0)))
    assert narrow_arithmetic(traced(policy)) == set()
    # 16-bit weights in the loop over the steps: their gradient is summed there.
    monkeypatch.setattr(_evaluator, "accumulate_in_float32", lambda call: (call, lambda same: same))
    assert narrow_arithmetic(traced(policy)) == {"scan carries"}


class NarrowGAE(GAE):
    """Adds up advantages in 16 bits."""

    def __call__(self, rollout, value_scale):
        def back(later, surprise):
            advantage = surprise + (0.5 * later).astype(jnp.bfloat16)
            return advantage, advantage

        targets = super().__call__(rollout, value_scale)
        reward = rollout.reward.astype(jnp.bfloat16)
        _, advantage = jax.lax.scan(back, reward[0], reward, reverse=True)
        return dataclasses.replace(targets, advantage=advantage.astype(jnp.float32))


def test_advantages_in_bfloat16_are_found():
    assert narrow_arithmetic(traced(gae=NarrowGAE())) == {"scan carries"}


def cartpole(mesh: str, **changes) -> Trainer:
    environment = CartPole(max_steps=12)
    policy = MLPActorCritic(environment.spec, width=72, key=jax.random.key(0))
    settings = {"num_envs": 32, "num_steps": 8, "precision": precision("bf16"), "update_epochs": 1}
    return Trainer(PPO(environment, policy, mesh=make_mesh(mesh), **{**settings, **changes}))


def sums_over_devices(trainer: Trainer, folder) -> set[str]:
    """The number formats of what devices add up, before this backend's own changes.

    XLA on CPU turns 16 bits into 32 after it has cut a program over devices.
    """
    options = {"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": "spmd.*"}
    # Not into the cache: what comes from there has no passes to write down.
    quick = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)
    try:
        trainer.lower().compile(compiler_options=options)
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", quick)
    (program,) = folder.glob("*jit_program*after_spmd-partitioning*")
    sums = re.findall(r"= (\w+)\[[\d,]*\]\S* (?:all-reduce|reduce-scatter)\(", program.read_text())
    assert sums
    return set(sums)


@pytest.mark.parametrize(("mesh", "grad_accum"), [("data=2", 1), ("data=1,fsdp=2", 2)])
def test_devices_add_up_gradients_in_float32(mesh, grad_accum, tmp_path):
    assert "bf16" not in sums_over_devices(cartpole(mesh, grad_accum=grad_accum), tmp_path)


def test_gradients_by_device_are_those_of_the_whole_minibatch():
    changes = []
    for mesh in ("data=1", "data=2"):
        # One step along the gradient itself: Adam would make much of the last bit.
        trainer = cartpole(mesh, num_minibatches=1, optimizer=optax.sgd(1.0))
        before = trainer.policy
        trainer.start(jax.random.key(1))
        trainer.dispatch(1)
        changes.append(jax.tree.map(jnp.subtract, *map(parameters_of, (trainer.policy, before))))
    for one, two in zip(*map(jax.tree.leaves, changes), strict=True):
        assert jnp.max(jnp.abs(one)) > 0
        # What 8 bits of precision leave.
        np.testing.assert_allclose(one, two, atol=0.01 * float(jnp.max(jnp.abs(one))))
