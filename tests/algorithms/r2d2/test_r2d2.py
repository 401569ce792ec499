"""Training: it learns what is true, resumes bit by bit, and does not depend on the mesh."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from training.states import arrays, assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.algorithms.r2d2 import EpsilonGreedy, Prioritized
from hackmatrix_rl.env.memory_tasks import DelayedMatchConfig, NBackConfig

from .building import STEPS, Alike, first_values, look_alike, network, train, trainer, values_along

pytestmark = pytest.mark.search

CLOSE = 0.1
TRUNCATES = probes.truncation()
MATCH = hm.Batched(hm.DelayedMatch(DelayedMatchConfig(1, 1, 1, 1, 1)))


def one_step():
    """A trainer that takes one gradient step in an update."""
    return trainer(TRUNCATES, train_steps=1, target_update=3, sampling=Prioritized())


@pytest.fixture(scope="module")
def found():
    """One such trainer for several tests."""
    return one_step()


def test_the_memory_is_stored_that_the_network_had_before_the_steps(found):
    found.start(jax.random.key(0))
    for update in range(8):
        before = np.array(found.state.collector_state.games.carry)
        seen = np.array(found.state.collector_state.games.observation)
        found.dispatch(1)
        buffer = found.state.collector_state.buffer
        place = update % 6
        assert np.array_equal(buffer.carry[:, place], before)
        assert np.array_equal(buffer.steps.observation[:, place * 4], seen)
        assert before.any() == (update % 3 > 0), "an episode has three steps, an update four"


def test_priorities_follow_the_errors_of_what_was_drawn(found):
    """One that was drawn has its own; the others have the largest of their environment."""
    found.start(jax.random.key(0))
    found.dispatch(3)
    before = np.array(found.state.collector_state.buffer.priority)
    assert ((before > 0).sum(axis=1) == 3).all()
    assert (before[:, 1:3] == 1.0).all(), "nothing was learned from what is not yet whole"
    assert (before[:, 0] != 1.0).all(), "each environment had one sequence, drawn twice"
    found.dispatch(1)
    after = np.array(found.state.collector_state.buffer.priority)
    assert (after[:, 3] == before.max(axis=1)).all()


def test_the_target_network_is_what_the_network_was(found):
    """It stays for three gradient steps, and is the network itself after each third."""
    found.start(jax.random.key(0))
    targets, networks, counts = [], [], []
    for _ in range(10):
        found.dispatch(1)
        targets.append(arrays(found.state.target))
        networks.append(arrays(found.state.learner.policy))
        counts.append(int(found.state.gradient_steps))
    assert counts == [0, 0, *range(1, 9)], "a sequence takes 9 steps: three updates"

    def same(one, other):
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

    for now, count in enumerate(counts):
        newest = counts.index(count // 3 * 3)
        assert same(targets[now], networks[newest])
        assert (count % 3 == 0) == same(targets[now], networks[now])


def test_a_gradient_that_is_not_finite_changes_nothing(found):
    found.start(jax.random.key(0))
    found.dispatch(4)
    spoiled = eqx.tree_at(
        lambda x: x.collector_state.buffer.steps.reward, found.state, jnp.full((8, 24), jnp.inf)
    )
    kept = jax.tree.map(np.array, arrays((spoiled.learner.policy, spoiled.target)))
    known = np.array(spoiled.collector_state.buffer.priority)
    count = int(spoiled.gradient_steps)
    found.state = spoiled
    metrics = found.dispatch(1)
    assert (metrics.learning["skipped"], metrics.learning["gradient_steps"]) == (1, 0)
    assert int(found.state.gradient_steps) == count
    jax.tree.map(np.testing.assert_array_equal, arrays((found.policy, found.state.target)), kept)
    # What was drawn is not drawn again, as its gradients are never finite.
    after = np.asarray(found.state.collector_state.buffer.priority)[:, :4]
    drawn = after != known[:, :4]
    assert drawn.any()
    assert (after[drawn] == 0).all()


class Marking(Alike):
    """Gives each sequence that was drawn a priority of 100."""

    uses_priorities = True

    def priority(self, td_error):
        return jnp.full(td_error.shape[1:], 100.0)


def test_draws_are_new_in_each_gradient_step_and_each_update():
    """With a learning rate of 0, which the gradient steps heed."""
    one_each = {"sequence_batch_size": 8, "train_steps": 2, "learning_rate": 0.0}
    learns = trainer(TRUNCATES, sampling=Marking(), **one_each)
    learns.start(jax.random.key(0))
    learns.dispatch(6)
    assert int(learns.state.gradient_steps) == 8
    assert_same(learns.policy, network(TRUNCATES.spec))

    def drawn(update):
        state = eqx.tree_at(lambda x: x.update, before, jnp.int32(update))
        clean = jnp.ones_like(state.collector_state.buffer.priority)
        learns.state = jax.tree.map(
            jnp.copy, eqx.tree_at(lambda x: x.collector_state.buffer.priority, state, clean)
        )
        learns.dispatch(1)
        return np.array(learns.state.collector_state.buffer.priority) == 100.0

    before = jax.tree.map(lambda x: jnp.copy(x) if eqx.is_array(x) else x, learns.state)
    first, again, other = drawn(6), drawn(6), drawn(7)
    assert np.array_equal(first, again)
    assert first.sum(axis=1).max() == 2, "an environment gave two different sequences"
    assert not np.array_equal(first, other)


def test_the_value_bootstraps_through_truncation():
    # 1 + 0.9 + 0.81 + ... = 10, though no episode is longer than three steps.
    learns = train(probes.truncation(), updates=1500)
    assert first_values(learns)[0] == pytest.approx([10.0] * 3, abs=1.0)


def test_a_network_with_memory_remembers_and_one_without_cannot():
    probe = probes.memory()
    best = values_along(train(probe, updates=800), [0, 2])[1]
    assert best == pytest.approx([1.0, -1.0, -1.0], abs=CLOSE)
    blind = values_along(train(probe, kind="forgetful", updates=800), [0, 2])[1]
    # After a blank, action 0 is right as often as wrong, and so is action 1.
    assert blind == pytest.approx([0.0, 0.0, -1.0], abs=0.3)


@pytest.mark.nightly
def test_a_memory_task_is_learned_to_95_in_100_and_not_without_memory():
    """The greedy return of games apart; what is seen now says nothing of the answer."""
    task = hm.NBack(NBackConfig(back=1, symbols=2, scored=6))

    def reached(kind):
        learns = trainer(
            hm.Batched(task),
            kind=kind,
            updates=100,
            num_envs=16,
            buffer_size=16 * 256,
            sequence_length=8,
            burn_in=0,
            train_steps=1,
            target_update=20,
        )
        learns.fit(500 * learns.batch_size, key=jax.random.key(1))
        games = hm.evaluate(
            learns.policy, learns.environment, episodes=512, greedy=True, key=jax.random.key(7)
        )
        return games.estimate("return")

    assert reached("gru").mean >= 0.95 * task.best_return
    blind = reached("forgetful")
    assert blind.low <= task.memoryless_return
    assert blind.mean >= 0.9 * task.memoryless_return


def test_metrics_are_means_over_episodes_and_sequences():
    found = trainer(MATCH, updates=6, sampling=Prioritized())
    metrics = found.fit(6 * STEPS, key=jax.random.key(2))
    assert (metrics.updates, metrics.env_steps, metrics.dispatched) == (6, 6 * STEPS, 6)
    assert metrics.episodes > 0
    assert metrics.episode["length"] == 5.0
    assert -0.1 <= metrics.episode["return"] <= 1.0
    learning = metrics.learning
    assert learning["gradient_steps"] == 2 * 4
    assert learning["q_loss"] >= 0.5 * learning["td_error"] ** 2 > 0
    assert abs(learning["q_value"]) < 2
    assert abs(learning["q_target"]) < 2
    assert learning["learning_rate"] == pytest.approx(0.01)
    assert learning["gradient_norm"] > 0


def test_nothing_is_learned_before_a_sequence_is_there_or_too_early():
    for early, updates in (({}, 2), ({"learning_starts": 5 * STEPS}, 4)):
        found = trainer(MATCH, **early)
        found.start(jax.random.key(1))
        metrics = found.dispatch(updates)
        assert metrics.learning["gradient_steps"] == 0
        assert "q_loss" not in metrics.learning
        assert_same(found.policy, network(MATCH.spec))
        assert found.dispatch(1).learning["gradient_steps"] == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sequence_length": 40}, "buffer_size 192 keeps 24 steps .* takes 44: burn_in 2"),
        ({"sequence_length": 40}, r"use buffer_size=352 or more"),
        ({"buffer_size": 8}, "buffer_size 8 keeps 0 steps"),
        ({"sequence_batch_size": 12}, "num_envs 8 do not fit.*use sequence_batch_size=8"),
        ({"sequence_batch_size": 3}, "use sequence_batch_size=2"),
        ({"train_freq": 0}, "train_freq must be at least 1, not 0"),
        ({"burn_in": -1}, "burn_in must be at least 0, not -1"),
        ({"target_update": 0}, "target_update must be at least 1"),
        ({"learning_starts": 200}, "learning_starts 200 is more than the 192 steps"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], not 1.5"),
        ({"mesh": "data=3"}, "num_envs 8 does not divide over the 3 devices"),
        ({"mesh": "data=8", "sequence_batch_size": 4}, "sequence_batch_size 4 does not divide"),
        ({"learning_rate": -1.0}, "learning_rate is -1; expected 0 or more"),
        ({"grad_accum": 3}, "3 does not divide the 16 sequences.*use grad_accum=1, 2, 4, 8 or 16"),
        ({"grad_accum": 0}, "grad_accum must be at least 1, not 0"),
        (
            {"grad_accum": 16, "mesh": "data=2"},
            "the 8 sequences that each device has.*=1, 2, 4 or 8",
        ),
        ({"grad_accum": 4, "mesh": "data=8"}, "the 2 sequences that each device has.*=1 or 2"),
        ({"buffer_size": 10**14}, "buffer_size 100000000000000 takes .* on each device, which has"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, says, monkeypatch):
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda *_: pytest.fail("compiled"))
    with pytest.raises(ValueError, match=says):
        trainer(MATCH, **changes)


def test_a_network_without_memory_and_units_that_change_are_refused():
    policy = hm.MLPActorCritic(MATCH.spec, width=4, key=jax.random.key(0))
    with pytest.raises(ValueError, match="MLPActorCritic without memory"):
        hm.R2D2(MATCH, policy)
    with pytest.raises(TypeError, match="value_scale is a RunningScale; expected ValueRescaling"):
        trainer(MATCH, value_scale=RunningScale())


def test_every_environment_acts_with_its_own_epsilon_and_legally():
    """The first always at random, the last never: it takes the best action of the network."""
    probe = look_alike()
    policy = network(probe.spec)

    def played(epsilon):
        found = trainer(probe, explore=EpsilonGreedy(epsilon, 0.0)).algorithm
        first = found.init(jax.random.key(0), policy).collector_state.games
        return first, eqx.filter_jit(type(found).play)(found, policy, first).steps

    first, wild = played(1.0)
    assert not wild.mask.all()
    assert np.take_along_axis(np.asarray(wild.mask), wild.action[..., None], axis=-1).all()
    assert len(np.unique(wild.action)) == 3
    assert (wild.action != wild.action[:, :1]).any(), "a draw of its own for each step"
    first, tame = played(0.0)
    logits, _, _ = jax.vmap(policy)(first.observation, first.carry)
    best = jnp.argmax(jnp.where(first.mask, logits, -jnp.inf), axis=1)
    assert tame.action[:, 0].tolist() == best.tolist()


def test_parts_take_less_memory():
    """A gradient step keeps the hidden layers of one part only.

    That parts come to the same: training/test_gradient_step.py.
    """

    def needs(parts):
        large = {"sequence_length": 16, "sequence_batch_size": 128, "buffer_size": 8 * 32}
        compiled = trainer(TRUNCATES, grad_accum=parts, **large).lower().compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert needs(16) < 0.5 * needs(1)
