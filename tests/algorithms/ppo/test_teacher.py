"""A policy to hold on to, a critic that learns first, and numbers that follow schedules."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent.builders import Closed, random_batch, random_rollout
from training.states import assert_same
from training.test_matrix import save

from hackmatrix_rl.agent import GAE, MaskedCategorical, PPOLoss
from hackmatrix_rl.agent._schedules import resolve_schedules
from hackmatrix_rl.agent.networks import GRUActorCritic, MLPActorCritic, add_auxiliary_head
from hackmatrix_rl.agent.precision import parameter_paths
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.algorithms.ppo._arguments import critic_warmup_of
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs._verify_resume import first_difference
from hackmatrix_rl.runs.checkpoints import find_checkpoint
from hackmatrix_rl.training import Constant, Cosine, Linear, Trainer, checked, is_value_head

KEY = jax.random.key(5)
CARTPOLE = CartPole(max_steps=40)
POLICY = MLPActorCritic(CARTPOLE.spec, width=16, depth=1, key=jax.random.key(0))
UPDATE = 16 * 8


def trainer(loss=None, policy=POLICY, **changes):
    settings = {"num_envs": 16, "num_steps": 8, "num_minibatches": 2, "learning_rate": 0.01}
    made = Trainer(PPO(CARTPOLE, policy, loss=loss, **{**settings, **changes}))
    made.start(KEY)
    return made


def test_the_kl_to_the_teacher_is_the_sum_over_legal_actions():
    batch = random_batch(POLICY, CARTPOLE.spec)
    teacher = MaskedCategorical(
        jax.random.normal(jax.random.key(1), batch.mask.shape), batch.mask
    ).log_probs
    batch = eqx.tree_at(
        lambda x: x.teacher_log_probs, batch, teacher, is_leaf=lambda leaf: leaf is None
    )
    plain, _ = PPOLoss()(POLICY, batch)
    loss, metrics = PPOLoss(teacher_kl_coef=0.5)(POLICY, batch)

    logits, _, _ = jax.vmap(jax.vmap(lambda seen: POLICY(seen, ())))(batch.observation)
    student = np.asarray(MaskedCategorical(logits, batch.mask).log_probs, np.float64)
    legal = np.asarray(batch.mask)
    p, q = (np.where(legal, each, 0.0) for each in (teacher, student))
    expected = np.where(legal, np.exp(p) * (p - q), 0).sum(-1).mean()
    assert expected > 0.1
    np.testing.assert_allclose(metrics.extra["teacher_kl"], expected, rtol=1e-5)
    np.testing.assert_allclose(loss - plain, 0.5 * expected, rtol=1e-4)


def test_a_loss_that_needs_a_teacher_says_what_a_batch_lacks():
    with pytest.raises(ValueError, match="needs a batch with teacher_log_probs"):
        PPOLoss(teacher_kl_coef=1.0)(POLICY, random_batch(POLICY, CARTPOLE.spec))
    assert not PPOLoss().needs_teacher
    assert PPOLoss(teacher_kl_coef=Linear(0.0, 1.0, 5)).needs_teacher
    with pytest.raises(ValueError, match="teacher_kl_coef must not be negative, but is -1"):
        PPOLoss(teacher_kl_coef=Linear(1.0, -1.0, 5))


def changed_by(made, updates):
    """Names of the parameters that some updates change."""
    before = {name: np.array(leaf) for name, leaf in parameter_paths(made.policy).items()}
    made.dispatch(updates)
    after = parameter_paths(made.policy)
    return {name for name, leaf in before.items() if not np.array_equal(leaf, after[name])}


def test_it_holds_on_resumes_bitwise_and_is_the_same_on_every_mesh(tmp_path):
    def make(mesh):
        return trainer(
            PPOLoss(
                teacher_kl_coef=Linear(0.5, 0.0, 4 * UPDATE), ent_coef=Cosine(0.2, 0.0, 4 * UPDATE)
            ),
            gae=GAE(gamma=Linear(0.5, 0.9, 4 * UPDATE)),
            mesh=mesh,
            critic_warmup=UPDATE,
        )

    held, other = make("data=2,fsdp=2"), make("data=1")
    observation = jax.random.normal(KEY, (5, 4))
    logits, _, _ = jax.vmap(lambda seen: POLICY(seen, ()))(observation)
    assert changed_by(held, 1) == {".heads.value.weight", ".heads.value.bias"}
    same, _, _ = jax.vmap(lambda seen: held.policy(seen, ()))(observation)
    np.testing.assert_array_equal(logits, same)
    # The optimizer's averages run on: from 0 they would make the first steps a leap.
    moments = held.state.learner.optimizer_state[1]
    assert np.abs(moments.nu.heads.policy.weight).max() > 0

    assert changed_by(held, 1) == set(parameter_paths(POLICY))
    save(tmp_path / "middle", 2, held)
    rows = [held.dispatch(1).learning for _ in range(3)]
    np.testing.assert_allclose([row["gamma"] for row in rows], [0.7, 0.8, 0.9], rtol=1e-6)
    wave = 0.1 + 0.1 * np.cos(np.pi * np.array([0.5, 0.75, 1]))
    np.testing.assert_allclose([row["ent_coef"] for row in rows], wave, atol=1e-6)
    np.testing.assert_allclose([row["teacher_kl_coef"] for row in rows], [0.25, 0.125, 0])
    assert min(row["teacher_kl"] for row in rows) > 0
    straight = save(tmp_path / "straight", 5, held)

    found = [other.dispatch(1).learning for _ in range(5)][2:]
    for row, elsewhere in zip(rows, found, strict=True):
        for name in ("teacher_kl", "value_loss"):
            np.testing.assert_allclose(row[name], elsewhere[name], rtol=1e-2, atol=1e-5)

    assert restore_training(held, find_checkpoint(tmp_path / "middle"), key=KEY) == ()
    assert_same(held.state.teacher, POLICY)
    held.dispatch(3)
    assert first_difference(straight, save(tmp_path / "resumed", 5, held)) is None

    free = trainer()  # switched off, the teacher is not missed
    assert restore_training(free, find_checkpoint(tmp_path / "middle"), key=KEY) == ()
    assert free.state.teacher is None


def test_networks_that_cannot_be_taught_or_warmed_up_are_refused():
    with pytest.raises(ValueError, match="a network without memory; GRUActorCritic has one"):
        trainer(PPOLoss(teacher_kl_coef=0.5), GRUActorCritic(CARTPOLE.spec, width=8, key=KEY))
    with pytest.raises(ValueError, match=r"trains the parameters \.heads\.value alone; Closed has"):
        critic_warmup_of(10, Closed(POLICY))
    assert critic_warmup_of(0, Closed(POLICY)) == 0


def test_the_value_head_has_the_same_name_beside_an_auxiliary_head():
    spec = replace(CARTPOLE.spec, terms=("pole",))
    policy = add_auxiliary_head(GRUActorCritic(spec, width=8, key=KEY), spec, key=KEY)
    found = set(filter(is_value_head, parameter_paths(policy)))
    assert found == {".heads.value.weight", ".heads.value.bias"}


def test_numbers_are_put_in_wherever_schedules_are():
    loss, _ = checked(PPOLoss(teacher_kl_coef=0.5), GAE(gamma=Constant(0.5)), "nans")
    assert loss.needs_teacher
    rollout = random_rollout(0)
    one = resolve_schedules(GAE(gamma=Constant(0.5)), jnp.float32(5))(rollout)
    np.testing.assert_allclose(one.advantage, GAE(gamma=0.5)(rollout).advantage, rtol=1e-5)
    with pytest.raises(
        TypeError, match=r"Constant is a schedule, not yet a number: call resolve_schedules\("
    ):
        GAE(gamma=Constant(0.5))(rollout)
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\], not 1.5"):
        GAE(gamma=Linear(0.5, 1.5, 3))
