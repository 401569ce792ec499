"""Imitation learns, mixes teacher and student, and runs and checkpoints know nothing of it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from env.mirror import Mirror

from hackmatrix_rl.agent import IDENTITY_SCALE, Batch, RolloutCollector
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.imitation import CloneLoss
from hackmatrix_rl.algorithms.imitation._buffer import Buffer, Labelled
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.evaluation import ThinkingAgent, Thought
from hackmatrix_rl.training import Constant, Linear
from hackmatrix_rl.training.sharding import single_device

from .imitating import UPDATE, imitation

pytestmark = pytest.mark.search


def test_the_student_learns_what_the_teacher_does():
    trainer = imitation(beta=Linear(1.0, 0.0, over=30 * UPDATE))
    found = [m.learning for m in trainer.train(60 * UPDATE, key=jax.random.key(1))]
    assert found[0]["accuracy"] < 0.9
    assert np.mean([m["accuracy"] for m in found[-5:]]) > 0.95
    assert found[0]["teacher_played"] > 0.9
    assert found[-1]["teacher_played"] == 0
    assert found[-1]["cross_entropy"] < 0.5 * found[0]["cross_entropy"]
    assert {"value_loss", "entropy", "gradient_norm", "label_cross_entropy"} <= set(found[0])
    assert not {"policy_loss", "approx_kl", "clip_fraction"} & set(found[0])


class Undecided(ThinkingAgent):
    """Always takes action 1, and says that it wants it 7 times in 10."""

    tells_probabilities = True

    def think(self, observation, mask, carry, *, key):
        chances = jnp.array([0.3, 0.7], jnp.float32)
        return jnp.int32(1), carry, Thought(probabilities=chances)


@pytest.mark.parametrize(("soft", "wanted"), [(True, 0.7), (False, 1.0)])
def test_soft_labels_are_the_teachers_probabilities(soft, wanted):
    trainer = imitation(teacher=Undecided(), soft_labels=soft, random_share=0.0)
    for metrics in trainer.train(40 * UPDATE, key=jax.random.key(1)):
        assert "return" not in metrics.as_dict(), "the teacher plays all games"
    student, seen = trainer.policy, trainer.state.collector_state.games.observation
    logits = jax.jit(jax.vmap(lambda one: student(one, ())[0]))(seen)
    np.testing.assert_allclose(jax.nn.softmax(logits)[:, 1], wanted, atol=0.03)


def test_who_plays_is_drawn_for_a_whole_episode():
    trainer = imitation(beta=Constant(0.5), random_share=0.0)
    trainer.start(jax.random.key(2))
    algorithm, state = trainer.algorithm, trainer.state
    labelling = algorithm._labelling(state.env_steps)
    collect = eqx.filter_jit(RolloutCollector(algorithm.ppo.collect.num_steps, choice=labelling))
    games = dataclasses.replace(
        state.collector_state.games, choice_state=state.collector_state.teaching
    )
    seen = []
    for _ in range(5):
        rollout, games = collect(state.learner.policy, algorithm.environment, games)
        labels = rollout.notes
        own = rollout.done & ~labels.taught
        assert int(rollout.episodes.count) == own.sum(), "the student's alone"
        seen.append((rollout.action, rollout.done, labels))
    action, done, labels = jax.tree.map(lambda *leaves: np.concatenate(leaves), *seen)
    changes = labels.taught[1:] != labels.taught[:-1]
    assert changes.any()
    assert (done & labels.taught).any()
    assert not (changes & ~done[:-1]).any()
    assert (action == labels.action)[labels.taught].all()
    assert 0.1 < np.mean((action == labels.action)[~labels.taught]) < 0.9, "its own draws"


def test_random_actions_come_as_often_as_asked_for():
    trainer = imitation(beta=Constant(1.0), random_share=0.4)
    metrics = trainer.fit(4 * UPDATE, key=jax.random.key(1))
    assert metrics.learning["teacher_played"] == pytest.approx(0.6, abs=0.08)


def labelled(first, num_envs=2, num_steps=3):
    """A rollout whose labels number its positions."""
    number = first + jnp.arange(num_steps * num_envs, dtype=jnp.int32).reshape(num_steps, -1)
    return Labelled(
        observation=jnp.broadcast_to(number[..., None], (num_steps, num_envs, 4)).astype(
            jnp.float32
        ),
        mask=jnp.ones((num_steps, num_envs, 2), bool),
        action=number,
        done=jnp.zeros((num_steps, num_envs), bool),
        value_target=number.astype(jnp.float32),
    )


def test_the_buffer_holds_the_newest_rollouts_and_draws_from_them_alone():
    spec = CartPole().spec
    policy = MLPActorCritic(spec, width=4, depth=1, key=jax.random.key(0))
    buffer = Buffer.empty(spec, policy, num_envs=2, num_steps=3, slots=2)

    def drawn(buffer):
        draw = jax.jit(lambda key: buffer.draw(3, single_device(), None, IDENTITY_SCALE, key=key))
        batches = [draw(jax.random.key(n)) for n in range(40)]
        seen = [np.asarray(b.observation[..., 0]) for b in batches]
        assert all(
            (one == np.asarray(b.action)).all() for one, b in zip(seen, batches, strict=True)
        )
        assert all((np.asarray(b.value_target) == np.asarray(b.action)).all() for b in batches)
        return [sorted({*np.ravel([b.action[:, env] for b in batches]).tolist()}) for env in (0, 1)]

    buffer = buffer.write(labelled(0), ())
    assert drawn(buffer) == [[0, 2, 4], [1, 3, 5]]
    buffer = buffer.write(labelled(6), ()).write(labelled(12), ())
    assert drawn(buffer) == [[6, 8, 10, 12, 14, 16], [7, 9, 11, 13, 15, 17]]


def test_what_is_drawn_is_changed_with_its_mask_and_its_labels():
    """What is seen has the sign of the only legal action, and of the label."""
    spec = CartPole().spec
    policy = MLPActorCritic(spec, width=4, depth=1, key=jax.random.key(0))
    right = jnp.array([[0, 1], [1, 1], [1, 0]], jnp.int32)
    positions = eqx.tree_at(
        lambda x: (x.observation, x.mask, x.action, x.probabilities),
        labelled(0),
        (
            jnp.broadcast_to(jnp.where(right == 1, 1.0, -1.0)[..., None], (3, 2, 4)),
            jax.nn.one_hot(right, 2) == 1,
            right,
            jax.nn.one_hot(right, 2),
        ),
        is_leaf=lambda leaf: leaf is None,
    )
    empty = Buffer.empty(spec, policy, num_envs=2, num_steps=3, slots=1, soft=True)
    buffer = empty.write(positions, ())
    draw = jax.jit(lambda key: buffer.draw(3, single_device(), Mirror(), IDENTITY_SCALE, key=key))
    for key in range(8):
        batch = draw(jax.random.key(key))
        seen = np.asarray(batch.observation[..., 0] > 0).astype(int)
        np.testing.assert_array_equal(batch.action, seen)
        np.testing.assert_array_equal(jnp.exp(batch.teacher_log_probs), np.eye(2)[seen])
        np.testing.assert_array_equal(batch.mask, np.eye(2, dtype=bool)[seen])


def test_the_loss_is_the_cross_entropy_over_the_legal_actions_with_its_weights():
    spec = CartPole().spec
    policy = MLPActorCritic(spec, width=4, depth=1, key=jax.random.key(0))
    policy = eqx.tree_at(
        lambda p: p.heads.policy.bias, policy, jnp.log(jnp.array([0.25, 0.75], jnp.float32))
    )
    policy = eqx.tree_at(lambda p: p.heads.policy.weight, policy, replace_fn=jnp.zeros_like)
    nothing = jnp.zeros((1, 2), jnp.float32)
    batch = Batch(
        observation=jnp.zeros((1, 2, 4), jnp.float32),
        mask=jnp.array([[[True, True], [False, True]]]),
        action=jnp.array([[0, 1]], jnp.int32),
        log_prob=nothing,
        value=nothing,
        done=jnp.zeros((1, 2), bool),
        initial_carry=(),
        advantage=nothing,
        value_target=nothing,
    )
    loss, metrics = CloneLoss(vf_coef=0.0)(policy, batch)
    np.testing.assert_allclose([loss, metrics.policy_loss], -np.log(0.25) / 2, rtol=1e-6)
    both = batch.select(jnp.array([0, 0])), batch.select(jnp.array([1, 1]))
    weighted = CloneLoss(vf_coef=0.0, special_from=0, special_weight=3.0)
    found = [float(weighted(policy, each)[0]) for each in both]
    np.testing.assert_allclose(found, [-3 * np.log(0.25), 0.0], atol=1e-6)

    # A student and a teacher who agree that a legal action is impossible.
    never = jnp.array([-jnp.inf, 0.0], jnp.float32)
    sure = eqx.tree_at(lambda p: p.heads.policy.bias, policy, never)
    soft = dataclasses.replace(batch, teacher_log_probs=jnp.broadcast_to(never, (1, 2, 2)))
    by_teacher = eqx.filter_value_and_grad(CloneLoss(vf_coef=0.0), has_aux=True)
    (loss, _), gradient = by_teacher(sure, soft)
    assert loss == 0.0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"random_share": 1.5}, r"random_share must be in \[0, 1\], not 1.5"),
        ({"buffer_size": 10}, "buffer_size 10 is less than the 256 positions of an update"),
        ({"soft_labels": True}, "Balancer has none; use soft_labels=False, or a network"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        imitation(**changes)
