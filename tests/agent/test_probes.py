"""The algorithm on environments with known values: an error shows up as a number."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent import probes
from agent.probes import train, values
from hackmatrix_rl.agent import GAE, Batch, Linear, PPOLoss, Rollout, RolloutCollector, RunningScale
from hackmatrix_rl.agent.networks import GRUActorCritic, MLPActorCritic

CLOSE = 0.1


def test_the_value_of_a_single_reward_is_that_reward_and_a_later_one_is_discounted():
    assert values(train(probes.value_only()))[0] == pytest.approx(1.0, abs=CLOSE)
    # At a constant rate the values sway by 0.05 to the end.
    trainer = train(probes.discounting(), learning_rate=Linear(0.01, 0.0, over=100 * 128))
    assert values(trainer)[:2] == pytest.approx([0.9, 1.0], abs=0.02)


def test_the_action_that_pays_is_taken_and_follows_the_observation():
    trainer = train(probes.action_matters())
    assert probes.chances(trainer)[0, 1] > 0.95
    assert values(trainer)[0] == pytest.approx(1.0, abs=CLOSE)
    trainer = train(probes.observation_matters())
    assert np.diag(probes.chances(trainer)[:3]).min() > 0.95
    assert values(trainer)[:3] == pytest.approx([1.0] * 3, abs=CLOSE)


def test_an_illegal_action_is_never_taken_however_much_it_would_pay():
    trainer = train(probes.mask_matters())
    assert probes.chances(trainer)[0, 2] == 0.0
    assert probes.chances(trainer)[0, 1] > 0.95
    assert values(trainer)[0] == pytest.approx(1.0, abs=CLOSE)


def test_the_value_bootstraps_through_truncation():
    # 1 + 0.9 + 0.81 + ... = 10, though no episode is longer than three steps.
    trainer = train(probes.truncation(), updates=300)
    assert values(trainer)[0] == pytest.approx(10.0, abs=0.5)


def test_the_value_does_not_bootstrap_through_termination():
    # Under another rounding the values wander by some 0.1; the mistake would give more than 3.5.
    trainer = train(probes.termination())
    assert values(trainer)[:3] == pytest.approx([2.71, 1.9, 1.0], abs=0.3)


def test_nothing_leaks_over_a_reset():
    trainer = train(probes.reset_leak(), updates=300)
    assert values(trainer)[:3] == pytest.approx([0.0, 10.0, 0.0], abs=0.5)


@pytest.mark.nightly
@pytest.mark.parametrize(("compress", "close"), [(False, 10.0), (True, 1.0)])
def test_values_of_very_different_size_are_learned_under_the_running_scale(compress, close):
    rows = {
        (0, None): (0.1, 0, probes.TERMINATES),
        (1, None): (5.0, 0, probes.TERMINATES),
        (2, None): (600.0, 0, probes.TERMINATES),
    }
    probe, updates = probes.Probe(rows, starts=(0, 1, 2)), 600
    # With a constant rate, how near it comes depends on the rounding.
    rate = Linear(0.01, 0.0, over=updates * 128)
    scale = RunningScale(compress=compress)
    trainer = train(probe, updates=updates, value_scale=scale, learning_rate=rate)
    assert trainer.batch_size == 128
    assert values(trainer)[:2] == pytest.approx([0.1, 5.0], abs=close)
    assert values(trainer)[2] == pytest.approx(600.0, rel=0.02)


def test_a_network_with_memory_remembers_and_one_without_cannot():
    probe = probes.memory()

    def mean_return(policy):
        # With 0.005, six seeds of six keep at least 0.98 from here on; 0.02 forgets now and then.
        trainer = probes.make_trainer(probe, policy, learning_rate=0.005)
        trainer.start(jax.random.key(2))
        trainer.dispatch(100)
        return trainer.dispatch(10).episode["return"]

    assert mean_return(GRUActorCritic(probe.spec, width=16, key=jax.random.key(0))) > 0.9
    blind = MLPActorCritic(probe.spec, width=16, depth=1, key=jax.random.key(0))
    assert abs(mean_return(blind)) < 0.2


# What each probe is there to catch, broken on purpose.


class TakesTruncationForTermination(GAE):
    def __call__(self, rollout: Rollout, value_scale):
        wrong = dataclasses.replace(
            rollout, terminated=rollout.done, truncated=jnp.zeros_like(rollout.truncated)
        )
        return GAE.__call__(self, wrong, value_scale)


class TakesTerminationForTruncation(GAE):
    def __call__(self, rollout: Rollout, value_scale):
        wrong = dataclasses.replace(
            rollout,
            truncated=rollout.done,
            terminated=jnp.zeros_like(rollout.terminated),
            bootstrap_value=rollout.value,
        )
        return GAE.__call__(self, wrong, value_scale)


class BootstrapsFromTheNextEpisode(GAE):
    def __call__(self, rollout: Rollout, value_scale):
        following = jnp.concatenate([rollout.value[1:], rollout.last_value[None]])
        return GAE.__call__(
            self, dataclasses.replace(rollout, bootstrap_value=following), value_scale
        )


class RunsTheTraceOverResets(GAE):
    def __call__(self, rollout: Rollout, value_scale):
        never = jnp.zeros_like(rollout.terminated)
        wrong = dataclasses.replace(rollout, terminated=never, truncated=never)
        return GAE.__call__(self, wrong, value_scale)


class IgnoresTheMask(RolloutCollector):
    def __call__(self, policy, environment, collector_state, *, precision):
        blind = eqx.tree_at(lambda e: e.legal, environment, jnp.ones_like(environment.legal))
        collector_state = eqx.tree_at(
            lambda a: a.mask, collector_state, jnp.ones_like(collector_state.mask)
        )
        return RolloutCollector.__call__(self, policy, blind, collector_state, precision=precision)


class SeesNothing(PPOLoss):
    def __call__(self, policy, batch: Batch):
        blank = dataclasses.replace(batch, observation=jnp.zeros_like(batch.observation))
        return PPOLoss.__call__(self, policy, blank)


class ShufflesActions(PPOLoss):
    def __call__(self, policy, batch: Batch):
        other = dataclasses.replace(batch, action=jnp.roll(batch.action, 1, axis=1))
        return PPOLoss.__call__(self, policy, other)


def leaks(trainer):
    return np.abs(values(trainer)[:3] - np.array([0.0, 10.0, 0.0])).max() > 2.0


def of_gae(kind):
    return {"gae": kind(probes.DISCOUNT, 0.95)}


# The probe, what is wrong, and what shows it; longer trainings for values that grow slowly.
CAUGHT = {
    "discount": (probes.discounting, {"gae": GAE(0.99, 0.95)}, lambda t: values(t)[0] > 0.96),
    "truncation taken for termination": (
        *(probes.truncation, {"updates": 300, **of_gae(TakesTruncationForTermination)}),
        lambda t: values(t)[0] < 5.0,
    ),
    "termination taken for truncation": (
        *(probes.termination, of_gae(TakesTerminationForTruncation)),
        lambda t: values(t)[0] > 3.5,
    ),
    "values of the next episode": (
        *(probes.reset_leak, {"updates": 300, **of_gae(BootstrapsFromTheNextEpisode)}, leaks),
    ),
    "a trace over resets": (
        *(probes.reset_leak, {"updates": 300, **of_gae(RunsTheTraceOverResets)}, leaks),
    ),
    "a mask that is ignored": (
        *(probes.mask_matters, {"num_steps": None, "collector": IgnoresTheMask(8)}),
        lambda t: values(t)[0] > 1.5,
    ),
    "a loss that sees nothing": (
        *(probes.observation_matters, {"loss": SeesNothing(ent_coef=0.001)}),
        lambda t: np.diag(probes.chances(t)[:3]).min() < 0.6,
    ),
    "actions that are mixed up": (
        *(probes.action_matters, {"loss": ShufflesActions(ent_coef=0.001)}),
        lambda t: probes.chances(t)[0, 1] < 0.95,
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("wrong", CAUGHT)
def test_a_probe_catches_what_it_is_there_to_catch(wrong):
    probe, broken, shows = CAUGHT[wrong]
    assert shows(train(probe(), **broken))
