"""The auxiliary loss: predicting what an action will bring at once."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from training.states import assert_close

from agent import probes
from agent.builders import Closed, random_batch
from agent.probes import make_trainer
from hackmatrix_rl.agent import (
    GAE,
    AuxiliaryLoss,
    Batch,
    PPOLoss,
    RolloutCollector,
    start_collector,
)
from hackmatrix_rl.agent._auxiliary import stacked_terms, symlog, win_targets
from hackmatrix_rl.agent.networks import AuxiliaryHead, MLPActorCritic, add_auxiliary_head
from hackmatrix_rl.env import EnvSpec, env_keys
from hackmatrix_rl.evaluation import PolicyAgent

# What an action brings depends on the state and on the action, and so does whether it ends.
PROBE = probes.Probe(
    {
        (0, 0): (3.0, 1, probes.GOES_ON),
        (0, 1): (-20.0, 0, probes.TERMINATES),
        (0, 2): (0.0, 0, probes.TRUNCATES),
        (1, 0): (500.0, 0, probes.TERMINATES),
        (1, 1): (0.5, 0, probes.GOES_ON),
        (1, 2): (0.0, 1, probes.GOES_ON),
    }
)
SPEC = PROBE.spec
KEY = jax.random.key(0)
PLAIN = MLPActorCritic(SPEC, width=16, depth=1, key=KEY)
POLICY = add_auxiliary_head(PLAIN, SPEC, key=jax.random.key(7))


@eqx.filter_jit
def gradient(policy, batch, loss):
    return eqx.filter_grad(loss, has_aux=True)(policy, batch)


def test_the_head_learns_what_each_action_brings():
    class OutcomesAlone(PPOLoss):
        """So that all actions go on being played."""

        def __call__(self, policy, batch):
            hidden = policy.unroll_trunk(batch.observation, batch.initial_carry, batch.done)
            loss, _ = self.auxiliary(
                policy.auxiliary, hidden, batch.action, batch.auxiliary, batch.number
            )
            return loss, super().__call__(policy, batch)[1]

    loss = OutcomesAlone(auxiliary=AuxiliaryLoss(1.0))
    trainer = make_trainer(PROBE, POLICY, loss=loss, num_steps=16)
    for _ in trainer.train(200 * trainer.batch_size, key=KEY):
        pass
    policy = trainer.policy
    hidden, _ = jax.vmap(policy.trunk, in_axes=(0, None))(PROBE.shown[:2], ())
    every_action = jnp.arange(3, dtype=jnp.int32)
    terms, logit = jax.vmap(
        lambda h: jax.vmap(policy.auxiliary, in_axes=(None, 0))(h, every_action)
    )(hidden)
    np.testing.assert_allclose(terms[..., 0], symlog(PROBE.reward[:2]), atol=0.2)
    ends = np.asarray(PROBE.ending[:2] == probes.TERMINATES)
    np.testing.assert_allclose(jax.nn.sigmoid(logit), ends, atol=0.1)


@eqx.filter_jit
def collect(collector):
    collector_state = start_collector(PROBE, PLAIN, env_keys(KEY, 8))
    return collector(PLAIN, PROBE, collector_state)[0]


def test_a_rollout_keeps_the_parts_of_the_reward_if_asked():
    rollout = collect(RolloutCollector(16, terms=("all",)))
    assert rollout.terms.dtype == jnp.float16
    np.testing.assert_allclose(rollout.terms[..., 0], symlog(rollout.reward), rtol=1e-3)
    auxiliary = Batch.from_rollout(rollout, GAE()(rollout)).auxiliary
    np.testing.assert_array_equal(auxiliary.terminated, rollout.terminated)
    assert collect(RolloutCollector(16)).terms is None


def test_a_rollout_keeps_the_log_probabilities_of_all_actions_if_asked():
    rollout = collect(RolloutCollector(4, keep_log_probs=True))
    taken = np.take_along_axis(np.asarray(rollout.log_probs), rollout.action[..., None], -1)
    np.testing.assert_array_equal(taken[..., 0], rollout.log_prob)
    np.testing.assert_allclose(np.exp(rollout.log_probs).sum(-1), 1.0, rtol=1e-6)
    assert Batch.from_rollout(rollout, GAE()(rollout)).log_probs is rollout.log_probs
    assert collect(RolloutCollector(4)).log_probs is None


def test_terms_are_stacked_by_name_and_symlog_is_odd_and_shrinks_large_numbers():
    with pytest.raises(ValueError, match=r"\['some'\].*\['all'\]"):
        stacked_terms({"all": jnp.zeros(3, jnp.float32)}, ("some",))
    x = jnp.array([0.0, 0.01, -0.01, 500.0, -500.0], jnp.float32)
    np.testing.assert_allclose(symlog(x), [0, 0.00995, -0.00995, 6.2166, -6.2166], rtol=1e-3)


def numbered(batch, number):
    return eqx.tree_at(lambda b: b.number, batch, jnp.uint32(number))


@pytest.mark.parametrize("number", [1, 2, 4, 5, 2**32 - 1])
def test_at_the_other_minibatches_the_gradient_has_no_auxiliary_part(number):
    every = 3 if number != 2**32 - 1 else 2
    batch = numbered(random_batch(POLICY, SPEC), number)
    found, metrics = gradient(POLICY, batch, PPOLoss(auxiliary=AuxiliaryLoss(0.5, every)))
    plain, plain_metrics = gradient(POLICY, batch, PPOLoss())
    assert metrics.auxiliary.due == 0
    for leaf in jax.tree.leaves(eqx.filter(found.auxiliary, eqx.is_array)):
        np.testing.assert_array_equal(leaf, 0.0)
    assert_close(found, plain, rtol=1e-6, atol=1e-8)
    assert metrics.policy_loss == plain_metrics.policy_loss


def test_at_its_minibatch_the_trunk_learns_from_it_by_its_weight():
    batch = random_batch(POLICY, SPEC)
    plain, _ = gradient(POLICY, batch, PPOLoss())
    for number in (0, 3):
        once, twice = (
            gradient(POLICY, numbered(batch, number), PPOLoss(auxiliary=AuxiliaryLoss(weight, 3)))
            for weight in (0.5, 1.0)
        )
        found, metrics = once
        assert metrics.auxiliary.due == 1
        assert metrics.auxiliary.terms > 0
        trunk = found.headless.layers[0].weight - plain.headless.layers[0].weight
        assert np.abs(trunk).max() > 1e-3
        assert np.abs(found.auxiliary.terms.weight).max() > 1e-3
        weights = (each.auxiliary.hidden.weight for each in (found, twice[0]))
        np.testing.assert_allclose(2 * next(weights), next(weights), rtol=1e-5)


def products_of_size(jaxpr, size, *, inside_cond=False):
    """Matrix products with an axis of that size: how many outside of any branch, and inside."""
    found = [0, 0]
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            shapes = [v.aval.shape for v in (*equation.invars, *equation.outvars)]
            found[inside_cond] += any(size in shape for shape in shapes)
        branch = inside_cond or equation.primitive.name == "cond"
        for inner in jaxprs_in_params(equation.params):
            more = products_of_size(inner, size, inside_cond=branch)
            found = [a + b for a, b in zip(found, more, strict=True)]
    return found


def test_what_is_not_due_is_in_a_branch_that_is_not_taken():
    head = AuxiliaryHead(16, SPEC.actions, 1, width=37, key=KEY)
    policy = eqx.tree_at(lambda p: p.auxiliary, POLICY, head)
    parameters, rest = eqx.partition(policy, eqx.is_inexact_array)
    batch = random_batch(policy, SPEC)
    loss = PPOLoss(auxiliary=AuxiliaryLoss(0.5, 4))

    def of(parameters, batch):
        return loss(eqx.combine(parameters, rest), batch)[0]

    outside, inside = products_of_size(jax.make_jaxpr(jax.grad(of))(parameters, batch).jaxpr, 37)
    assert outside == 0
    assert inside >= 6  # three products of the head, and two of the gradient for each


def one_loss(policy, without=False, **auxiliary):
    batch = random_batch(policy, SPEC)
    if without:
        batch = eqx.tree_at(lambda b: b.auxiliary, batch, None)
    return PPOLoss(auxiliary=AuxiliaryLoss(1.0, **auxiliary))(policy, batch)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: add_auxiliary_head(Closed(PLAIN), SPEC, key=KEY), "not a TrunkActorCritic"),
        (
            lambda: add_auxiliary_head(PLAIN, EnvSpec(3, SPEC.observation), key=KEY),
            "no terms of the reward",
        ),
        (lambda: add_auxiliary_head(PLAIN, SPEC, wins=True, key=KEY), "'victory'"),
        (lambda: one_loss(PLAIN), "add_auxiliary_head"),
        (lambda: one_loss(POLICY, without=True), "keeps the reward's terms"),
        (lambda: one_loss(POLICY, victory=0), "wins=True"),
        (lambda: AuxiliaryLoss(0.0), "coefficient"),
        (lambda: AuxiliaryLoss(1.0, 0), "every"),
    ],
)
def test_what_it_cannot_do_without_is_named(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_what_a_prediction_of_the_victory_should_have_been():
    # Columns: won in the end; lost; truncated, then a new episode that goes on.
    no, yes = False, True
    won = jnp.array([[no, no, no], [no, no, no], [yes, no, no], [no, no, no]])
    terminated = jnp.array([[no, no, no], [no, yes, no], [yes, no, no], [no, no, no]])
    done = terminated | jnp.array([[no, no, no], [no, no, yes], [no, no, no], [no, no, no]])
    predicted = jnp.array(
        [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9], [0.5, 0.25, 0.75]], jnp.float32
    )
    found, counts = win_targets(predicted, won, terminated, done, trace=0.5)
    later = 0.5 * 0.7 + 0.5 * 1.0
    expected = [
        [0.5 * 0.4 + 0.5 * later, 0.0 + 0.5 * 0.5, 0.6],
        [later, 0.0, 0.6],
        [1.0, 0.25, 0.75],
        [0.5, 0.25, 0.75],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(
        counts, [[yes, yes, yes], [yes, yes, no], [yes, yes, yes], [no, no, no]]
    )


WINNING = add_auxiliary_head(
    PLAIN, dataclasses.replace(SPEC, terms=("victory",)), wins=True, key=jax.random.key(7)
)


def test_the_probability_of_winning_is_learned_beside_the_rest():
    batch = random_batch(WINNING, SPEC)
    found, metrics = gradient(WINNING, batch, PPOLoss(auxiliary=AuxiliaryLoss(0.5, victory=0)))
    assert metrics.auxiliary.won > 0
    assert np.abs(found.auxiliary.won.weight).max() > 1e-3
    plain, without = gradient(WINNING, batch, PPOLoss(auxiliary=AuxiliaryLoss(0.5)))
    assert without.auxiliary.won is None
    assert np.abs(plain.auxiliary.won.weight).max() == 0
    np.testing.assert_allclose(
        found.auxiliary.terms.weight, plain.auxiliary.terms.weight, rtol=1e-4, atol=1e-7
    )
    # The rest of the head is drawn as without it.
    np.testing.assert_array_equal(WINNING.auxiliary.hidden.weight, POLICY.auxiliary.hidden.weight)


def test_a_thought_holds_the_probability_of_winning():
    mask = jnp.ones(SPEC.num_actions, bool)
    seen = PROBE.shown[0]
    _, _, thought = PolicyAgent(WINNING).think(seen, mask, (), key=KEY)
    hidden, _ = PLAIN.trunk(seen, ())
    expected = jax.nn.sigmoid(WINNING.auxiliary.win_logit(hidden))
    np.testing.assert_allclose(thought.win_probability, expected, rtol=1e-6)
    _, _, plain = PolicyAgent(POLICY).think(seen, mask, (), key=KEY)
    assert plain.win_probability is None
    np.testing.assert_array_equal(thought.probabilities, plain.probabilities)
