"""PQN: its returns against a plain loop, what it learns, resuming, meshes, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes

import hackmatrix_rl as hm
from hackmatrix_rl.agent import EpsilonGreedyChoice, IdentityScale, Linear
from hackmatrix_rl.algorithms.pqn import _pqn
from hackmatrix_rl.env.memory_tasks import NBackConfig

GAMMA, LAMBDA = 0.9, 0.6
SIZES = {"num_envs": 8, "num_steps": 12, "num_minibatches": 2, "update_epochs": 2}
ENDINGS = probes.Probe(
    {
        (0, None): (0.5, 1, probes.GOES_ON),
        (0, 1): (-1.0, 3, probes.TRUNCATES),
        (1, None): (2.0, 2, probes.GOES_ON),
        (1, 1): (1.0, 0, probes.TERMINATES),
        (2, None): (-0.5, 0, probes.GOES_ON),
        (2, 2): (4.0, 1, probes.TRUNCATES),
    },
    starts=(0, 1),
    illegal=((0, 2), (1, 0), (3, 0), (3, 1)),
)
"""Episodes that end in both ways. Only a truncation shows state 3, with one legal action."""


def network(spec, kind="gru", *, seed=0):
    """A network whose Q-values differ much from the beginning."""
    key = jax.random.key(seed)
    if kind == "gru":
        made = hm.GRUActorCritic(spec, width=16, key=key)
    else:
        made = hm.ResidualActorCritic(spec, width=16, depth=1, expansion=2, key=key)
    return eqx.tree_at(lambda x: x.heads.policy.weight, made, replace_fn=lambda leaf: 100 * leaf)


def pqn(environment=ENDINGS, kind="gru", *, seed=0, **changes):
    policy = network(environment.spec, kind, seed=seed)
    given = {"learning_rate": 0.01, "epsilon": 0.5, "gamma": GAMMA, **SIZES, **changes}
    return hm.PQN(environment, policy, **given)


def plain_returns(policy, probe, rollout, after):
    """The lambda-returns of a rollout: one environment, one step after another."""
    call = eqx.filter_jit(lambda seen, carry: policy(seen, carry))

    def largest(q, mask):
        return max(q for q, legal in zip(np.asarray(q), np.asarray(mask), strict=True) if legal)

    rollout = jax.tree.map(np.asarray, rollout)
    steps, envs = rollout.reward.shape
    found = np.zeros((steps, envs))
    for env in range(envs):
        carry, values, beyond = policy.initial_carry(), [], []
        for t in range(steps):
            q, _, carry = call(rollout.observation[t, env], carry)
            values.append(largest(q, rollout.mask[t, env]))
            here = int(rollout.observation[t, env].argmax())
            reached = int(probe.leads_to[here, rollout.action[t, env]])
            beyond.append(largest(call(probe.shown[reached], carry)[0], probe.legal[reached]))
            if rollout.terminated[t, env] or rollout.truncated[t, env]:
                carry = policy.initial_carry()
        value = later = largest(call(after.observation[env], carry)[0], after.mask[env])
        for t in reversed(range(steps)):
            follows = (1 - LAMBDA) * value + LAMBDA * later
            if rollout.terminated[t, env]:
                follows = 0.0
            elif rollout.truncated[t, env]:
                follows = beyond[t]
            found[t, env] = later = rollout.reward[t, env] + GAMMA * follows
            value = values[t]
    return found


def check_returns(kind="gru"):
    """The targets of an update are what a plain loop computes from its rollout."""
    algorithm = pqn(kind=kind, q_lambda=LAMBDA, value_scale=IdentityScale())
    state = algorithm.init(jax.random.key(1), algorithm.initial_policy)
    rollout, targets, after = eqx.filter_jit(lambda state: algorithm.play(state))(state)
    assert rollout.terminated.sum() >= 3
    assert rollout.truncated.sum() >= 3
    expected = plain_returns(state.learner.policy, ENDINGS, rollout, after)
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(targets.value_target, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["gru", "residual"])
def test_the_targets_are_the_lambda_returns_of_a_plain_loop(kind):
    check_returns(kind)


def with_illegal(original):
    return lambda self, logits, value, mask: original(self, logits, value, jnp.ones_like(mask))


def across_truncation(original):
    def mutant(self, rollout, scale):
        never = jnp.zeros_like(rollout.truncated)
        return original(self, eqx.tree_at(lambda x: x.truncated, rollout, never), scale)

    return mutant


MUTANTS = {
    "illegal actions in the maximum": (EpsilonGreedyChoice, "state_value", with_illegal),
    "the value head": (EpsilonGreedyChoice, "state_value", lambda _: lambda *given: given[2]),
    "returns across a truncation": (_pqn.agent.GAE, "__call__", across_truncation),
    "another lambda": (_pqn.agent, "GAE", lambda gae: lambda gamma, _: gae(gamma, 0.0)),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_returns_is_noticed(monkeypatch, name):
    owner, attribute, mutate = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, mutate(getattr(owner, attribute)))
    with pytest.raises(AssertionError):
        check_returns()


def test_exploration_is_uniform_over_legal_actions_and_epsilon_0_is_greedy():
    for epsilon in (0.0, 1.0):
        algorithm = pqn(kind="residual", epsilon=epsilon, num_envs=64)
        state = algorithm.init(jax.random.key(1), algorithm.initial_policy)
        rollout, _, _ = eqx.filter_jit(lambda state, by=algorithm: by.play(state))(state)
        chosen = jax.nn.one_hot(rollout.action, 3, dtype=bool)
        assert not (chosen & ~rollout.mask).any()
        call = jax.vmap(jax.vmap(state.learner.policy, in_axes=(0, None)), in_axes=(0, None))
        q, _, _ = call(rollout.observation, ())
        best = jnp.argmax(jnp.where(rollout.mask, q, -jnp.inf), axis=-1)
        greedy = float(jnp.mean((best == rollout.action).astype(jnp.float32)))
        if epsilon:  # two actions are legal in states 0 and 1, three in state 2
            assert 0.35 < greedy < 0.55
        else:
            assert greedy == 1.0


def fit(environment, kind, steps, *, seed=1, **changes):
    policy = {
        "gru": lambda key: hm.GRUActorCritic(environment.spec, width=16, key=key),
        "mlp": lambda key: hm.MLPActorCritic(environment.spec, width=16, depth=1, key=key),
        "residual": lambda key: hm.ResidualActorCritic(
            environment.spec, width=32, depth=1, expansion=2, key=key
        ),
    }[kind](jax.random.key(seed))
    given = {"epsilon": Linear(1.0, 0.05, over=steps // 4), **changes}
    trainer = hm.Trainer(hm.PQN(environment, policy, **given), updates_per_dispatch=50)
    trainer.fit(steps, key=jax.random.key(seed))
    found = hm.evaluate(
        trainer.policy, environment, episodes=256, greedy=True, key=jax.random.key(7)
    )
    return found.estimate("return")


def test_cartpole_is_learned(optimized):
    sizes = {"num_envs": 32, "num_minibatches": 8, "update_epochs": 4, "q_lambda": 0.9}
    rate = Linear(1e-3, 0.0, over=200_000)
    found = fit(hm.CartPole(), "residual", 200_000, seed=2, learning_rate=rate, **sizes)
    assert found.mean > 400


def test_a_memory_task_is_learned_with_a_gru_and_not_without_memory(optimized):
    task = hm.NBack(NBackConfig(back=1, symbols=2, scored=6))
    sizes = {"num_envs": 16, "num_steps": 16, "num_minibatches": 4, "learning_rate": 5e-3}
    assert fit(hm.Batched(task), "gru", 80_000, **sizes).mean >= 0.95 * task.best_return
    assert fit(hm.Batched(task), "mlp", 80_000, **sizes).low <= task.memoryless_return


def test_metrics_are_means_over_the_updates():
    trainer = hm.Trainer(pqn(epsilon=Linear(1.0, 0.0, over=8 * 12 * 2)), updates_per_dispatch=2)
    metrics = trainer.fit(2 * trainer.batch_size, key=jax.random.key(1))
    assert metrics.env_steps == 2 * 8 * 12
    assert metrics.learning["epsilon"] == pytest.approx((1.0 + 0.5) / 2)
    assert metrics.learning["learning_rate"] == pytest.approx(0.01)
    assert metrics.learning["gradient_steps"] == 2 * 4
    assert {"q_loss", "td_error", "q_value", "q_target", "gradient_norm"} < set(metrics.learning)
    assert metrics.episodes > 0
    assert trainer.agent.greedy


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"gamma": 1.5}, ValueError, r"gamma must be in \[0, 1\], not 1.5"),
        ({"q_lambda": -0.1}, ValueError, r"q_lambda must be in \[0, 1\], not -0.1"),
        ({"epsilon": Linear(2.0, 0.1, over=5)}, ValueError, r"epsilon must be in \[0, 1\]"),
        ({"epsilon": float("nan")}, ValueError, "epsilon must be a finite number"),
        ({"num_envs": 7}, ValueError, "num_minibatches 2 does not divide num_envs 7"),
        ({"mesh": "data=8"}, ValueError, "num_envs 8 in 2 minibatches"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate is -1; expected 0 or more"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, error, says):
    with pytest.raises(error, match=says):
        pqn(**changes)
