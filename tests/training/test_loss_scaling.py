"""Training under float16: the loss scale in the training state."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from agent.builders import OwnLoss
from agent.probes import make_trainer

from hackmatrix_rl.agent import Batch, PPOLoss
from hackmatrix_rl.agent.networks import ActorCritic, MLPActorCritic
from hackmatrix_rl.agent.precision import LossScale, NonTrainable, precision
from hackmatrix_rl.algorithms.ppo import PPO, PPOConfig
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs.checkpoints import CheckpointWriter, find_checkpoint, restore
from hackmatrix_rl.training import Linear, Trainer

pytestmark = pytest.mark.devices

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    """Its first steps overflow; compiled once, and each test starts it anew."""
    loss = Large(jnp.float32(2.0**12))
    return make_trainer(probes.observation_matters(), precision=precision("f16"), loss=loss)


class Large(eqx.Module):
    """PPO, its loss times a factor that overflows float16 from some scale on."""

    factor: jax.Array
    base: PPOLoss = PPOLoss()

    def __call__(self, policy, batch: Batch):
        loss, metrics = self.base(policy, batch)
        return loss * self.factor, metrics


@pytest.mark.nightly
def test_cartpole_is_learned_in_float16():
    environment = CartPole()
    total = 65_536
    trainer = Trainer(
        PPO(
            environment,
            MLPActorCritic(environment.spec, width=32, key=jax.random.key(0)),
            loss=PPOLoss(ent_coef=0.005),
            learning_rate=Linear(2.5e-3, 0.0, total),
            precision=precision("f16"),
            num_envs=32,
            num_steps=64,
        ),
        updates_per_dispatch=8,
    )
    found = list(trainer.train(total, key=jax.random.key(1)))
    assert found[0].episode["return"] < 60
    assert found[-1].episode["return"] > 150
    assert found[-1].learning["loss_scale"] >= 2**10


def test_a_scale_that_is_too_large_is_halved_until_steps_are_taken(trainer):
    trainer.start(KEY)
    first = trainer.dispatch(4)
    skipped, taken = first.learning["skipped"], first.learning["gradient_steps"]
    assert skipped > 0
    assert taken > 0
    assert skipped + taken == 4 * 8
    scaling = jax.device_get(trainer.state.learner.scaling)
    # It was halved once for each step left out, and has not grown since.
    assert scaling.scale == 2.0 ** (15 - skipped)
    assert scaling.streak == taken
    assert int(trainer.state.learner.skipped) == skipped
    assert all(np.isfinite(value) for value in first.as_dict().values())
    second = trainer.dispatch(1)
    assert second.learning["loss_scale"] == float(scaling.scale)


def test_scale_and_counters_are_in_the_checkpoint(trainer, tmp_path):
    trainer.start(KEY)
    trainer.dispatch(2)
    learner = trainer.state.learner
    with CheckpointWriter(tmp_path, keep=1, config=PPOConfig()) as writer:
        writer.save(2, policy=learner.policy, training=trainer.state, counters={})
    trainer.start(KEY)
    trainer.state = restore(find_checkpoint(tmp_path), "training", trainer.state)
    back = trainer.state.learner
    assert isinstance(back.scaling, LossScale)
    assert back.scaling.scale == learner.scaling.scale != 2.0**15
    assert back.scaling.streak == learner.scaling.streak > 0
    assert back.skipped == learner.skipped > 0


def test_a_divergence_that_is_not_a_number_is_a_step_left_out_and_not_the_end_of_the_update():
    def not_a_number(loss, metrics, policy, batch):
        return loss * jnp.nan, eqx.tree_at(lambda m: m.approx_kl, metrics, jnp.float32(jnp.nan))

    loss = OwnLoss(change=not_a_number)
    trainer = make_trainer(probes.value_only(), loss=loss, target_kl=0.1)
    trainer.start(KEY)
    metrics = trainer.dispatch(1)
    assert metrics.learning["skipped"] == 8
    assert metrics.learning["gradient_steps"] == 0


class Standardising(ActorCritic):
    """A network with running statistics of what it sees, which nothing here may move."""

    network: MLPActorCritic
    seen: NonTrainable

    def __init__(self, spec, *, key):
        self.network = MLPActorCritic(spec, width=16, depth=1, key=key)
        self.seen = NonTrainable({"mean": jnp.full((4,), 0.001, jnp.float32)})

    def __call__(self, observation, carry):
        return self.network(observation - self.seen.value["mean"], carry)


def test_running_statistics_are_neither_cast_nor_optimized():
    probe = probes.observation_matters()
    policy = Standardising(probe.spec, key=jax.random.key(0))
    trainer = make_trainer(probe, policy, precision=precision("bf16"))
    trainer.start(KEY)
    trainer.dispatch(2)
    learner = trainer.state.learner
    np.testing.assert_array_equal(learner.policy.seen.value["mean"], np.float32(0.001))
    paths = [
        jax.tree_util.keystr(path)
        for path, _ in jax.tree_util.tree_flatten_with_path(learner.optimizer_state)[0]
    ]
    assert any("layers[0].weight" in path for path in paths)
    assert not any("seen" in path for path in paths)


def test_a_policy_that_does_not_suit_the_network_is_refused_at_construction():
    with pytest.raises(ValueError, match="matches no parameter"):
        make_trainer(probes.value_only(), precision=precision("bf16", {".body*": "f32"}))
