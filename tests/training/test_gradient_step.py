"""The gradient step, alone and in every algorithm that takes it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent import probes
from agent.builders import OwnLoss, random_batch
from agent.probes import make_trainer
from algorithms.imitation.imitating import imitation
from algorithms.pqn.test_pqn import pqn
from algorithms.r2d2.building import trainer as r2d2
from algorithms.self_play.test_self_play import trainer as self_play
from algorithms.supervised.building import trainer as supervised

from hackmatrix_rl.agent import IDENTITY_SCALE, AuxiliaryLoss, PPOLoss
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    GRUActorCritic,
    MLPActorCritic,
    add_auxiliary_head,
)
from hackmatrix_rl.agent.precision import equations, precision
from hackmatrix_rl.algorithms.r2d2 import Prioritized
from hackmatrix_rl.training import (
    Constant,
    GradientStep,
    StepReport,
    Trainer,
    mean_weights,
    unit_rate,
)
from hackmatrix_rl.training._mean_gradient import part_of
from hackmatrix_rl.training.sharding import mesh, place, replicated_shardings, single_device

from .narrow import traced_update
from .states import arrays, assert_same, assert_same_but_for_rounding

pytestmark = pytest.mark.devices

X = jnp.asarray([1.0, 2.0, -3.0, 8.0, 0.5, 4.0, 0.0, 3.5])
MEAN = 2.0
TRUE = jnp.array(True)
CLIPPED = optax.chain(optax.clip_by_global_norm(0.5), optax.scale(-1.0))


class Weight(ActorCritic):
    """A network of one number."""

    weight: jax.Array

    def __call__(self, observation, carry):
        return jnp.zeros(2), self.weight, carry


class Samples(eqx.Module):
    x: jax.Array


class Slope(eqx.Module):
    """The loss whose gradient is the mean of the samples."""

    def prepare(self, batch):
        return self, batch

    def __call__(self, policy, batch, factor=1.0):
        value = factor * jnp.mean(policy.policy.weight.astype(jnp.float32) * batch.x)
        return value, Samples(value), 2 * batch.x


def started(name="f32", shape="data=1", optimizer=CLIPPED, **changes):
    step = GradientStep(optimizer, precision(name), mesh(shape), **changes)
    learner = step.init(Weight(jnp.float32(1.0)), IDENTITY_SCALE)
    return step, place(learner, replicated_shardings(step.mesh, learner))


def one_step(step, learner, x=X, **conditions):
    @eqx.filter_jit
    def run(learner, x):
        gradient, metrics, _ = step.gradient(learner, Slope(), Samples(x))
        given = {"active": TRUE, **conditions}
        return step.apply(learner, gradient, metrics, jnp.float32(0.1), **given)

    return run(learner, x)


@pytest.mark.parametrize("shape", ["data=1", "data=2", "data=1,fsdp=2"])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_it_is_a_mean_over_samples_in_any_number_of_parts_and_devices(shape, parts):
    step, learner = started(shape=shape, grad_accum=parts)
    found = eqx.filter_jit(step.gradient)(learner, Slope(), Samples(X), jnp.float32(3.0))
    gradient, metrics, (doubled,) = found
    assert float(gradient.weight) == pytest.approx(3 * MEAN)
    assert float(metrics.x) == pytest.approx(3 * MEAN)
    np.testing.assert_array_equal(doubled, 2 * X)


def test_the_optimizer_clips_and_the_norm_is_that_before():
    learner, report = one_step(*started())
    assert float(learner.policy.weight) == pytest.approx(1 - 0.1 * 0.5)
    assert report.means() == {"x": pytest.approx(MEAN), "gradient_norm": pytest.approx(MEAN)}
    assert report.counts() == {"gradient_steps": 1, "skipped": 0}


@pytest.mark.parametrize("name", ["f32", "f16"])
@pytest.mark.parametrize("active", [True, False])
def test_a_gradient_that_is_not_finite_is_skipped_and_reported_only_if_active(name, active):
    step, before = started(name, optimizer=optax.adam(0.1))
    after, report = one_step(step, before, X.at[3].set(jnp.nan), active=jnp.array(active))
    assert_same((after.policy, after.optimizer_state), (before.policy, before.optimizer_state))
    assert int(after.skipped) == int(active)
    assert report.means() == {}
    assert report.counts() == {"gradient_steps": 0, "skipped": int(active)}
    assert [float(each) for each in (report.metrics.x, report.gradient_norm)] == [0.0, 0.0]
    if name == "f16":
        assert after.scaling.scale == before.scaling.scale / 2


def test_a_step_that_is_not_active_changes_nothing_and_may_still_be_reported():
    step, before = started(optimizer=optax.adam(0.1))
    for include, means in ((None, {}), (TRUE, {"x": MEAN, "gradient_norm": MEAN})):
        after, report = one_step(step, before, active=~TRUE, include=include)
        assert_same(after, before)
        assert report.means() == pytest.approx(means)
        assert report.counts() == {"gradient_steps": 0, "skipped": 0}


def test_the_loss_is_scaled_and_the_gradient_is_not():
    """In float16 a gradient of 2e-8 is 0 and one of 65536 infinite, but for the scale."""
    step, learner = started("f16")

    @eqx.filter_jit
    def gradient(scale, x):
        scaled = eqx.tree_at(lambda x: x.scaling.scale, learner, scale)
        return step.gradient(scaled, Slope(), Samples(x))[0].weight

    assert float(gradient(jnp.float32(1.0), X)) == pytest.approx(MEAN)
    assert float(gradient(jnp.float32(1.0), 1e-8 * X)) == 0.0
    assert float(gradient(jnp.float32(2.0**15), 1e-8 * X)) == pytest.approx(1e-8 * MEAN, rel=0.01)
    assert float(gradient(jnp.float32(2.0**15), X)) == np.inf


def test_the_average_moves_with_each_step_that_is_taken_and_starts_at_the_first_weights():
    step, learner = started(optimizer=optax.sgd(1.0), ema=0.75)
    assert float(learner.played.weight) == 1.0
    for active, x, weight, average in (
        (TRUE, X, 0.8, 0.95),  # the rate is 0.1, the gradient 2
        (TRUE, X, 0.6, 0.8625),
        (~TRUE, X, 0.6, 0.8625),
        (TRUE, X.at[3].set(jnp.nan), 0.6, 0.8625),
        (TRUE, X, 0.4, 0.746875),
    ):
        learner, _ = one_step(step, learner, x, active=active)
        assert float(learner.policy.weight) == pytest.approx(weight)
        assert float(learner.played.weight) == pytest.approx(average)


def test_without_an_average_the_state_has_no_more_arrays_and_the_policy_is_played():
    _, learner = started()
    assert learner.average is None
    assert learner.played is learner.policy


def test_means_are_over_the_measured_steps_and_over_the_valid_samples():
    three = jnp.int32(3)
    report = StepReport(Samples(jnp.float32(6.0)), jnp.float32(1.5), three, jnp.int32(2), three)
    assert report.means() == {"x": 2.0, "gradient_norm": 0.5}
    assert report.counts() == {"gradient_steps": 2, "skipped": 3}
    weights = mean_weights(jnp.asarray([1.0, 0.0, 1.0, 0.0]))
    assert float(jnp.mean(weights * jnp.asarray([1.0, 9.0, 2.0, 9.0]))) == 1.5
    assert mean_weights(jnp.zeros(3)).tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grad_accum": 0}, "grad_accum must be at least 1"),
        ({"remat": "some"}, "none, blocks"),
        ({"ema": 1.0}, "ema must be between 0 and 1"),
        ({"ema": 0.0}, "ema must be between 0 and 1"),
    ],
)
def test_what_it_cannot_do_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        started(**changes)


ALGORITHMS = {
    "ppo": lambda **changes: probes.make_trainer(probes.observation_matters(), **changes),
    "imitation": lambda **changes: imitation(modules=changes),
    "pqn": lambda **changes: Trainer(pqn(num_envs=16, **changes)),
    "r2d2": lambda **changes: r2d2(probes.truncation(), sampling=Prioritized(), **changes),
    "self-play": lambda **changes: self_play(**changes),
    # An update has one step of an episode, of which there is nothing for `full` to recompute.
    "supervised": lambda **changes: supervised(
        **{**changes, "remat": "blocks" if "remat" in changes else "none"}
    ),
}
UPDATES = {"ppo": 1, "imitation": 2, "pqn": 1, "r2d2": 6, "self-play": 3, "supervised": 3}
FEATURES = {"grad_accum": 2, "remat": "full", "offload_optimizer": True}


def learned(name, **changes):
    """A trainer after some updates of plain descent, and what they reported.

    A gradient that is twice as large takes a step that is twice as long.
    """
    sgd = optax.inject_hyperparams(optax.sgd)
    plain = {"optimizer": sgd(0.05, momentum=0.5), "learning_rate": None}
    found = ALGORITHMS[name](**plain, **changes)
    found.start(jax.random.key(1))
    metrics = found.dispatch(UPDATES[name])
    assert metrics.learning["gradient_steps"] > 2
    return found, metrics


@pytest.fixture(scope="module", params=ALGORITHMS)
def algorithm(request):
    """The name of an algorithm, and a trainer without any of the features."""
    return request.param, learned(request.param)


def test_the_rate_of_an_own_optimizer_is_reported_and_goes_with_no_second_one(algorithm):
    name, (_, metrics) = algorithm
    np.testing.assert_allclose(metrics.learning["learning_rate"], 0.05)
    with pytest.raises(ValueError, match="optimizer and learning_rate are both given"):
        ALGORITHMS[name](optimizer=optax.adam(1e-3), learning_rate=1e-3)
    marked = ALGORITHMS[name](optimizer=unit_rate(optax.sgd(1.0)), learning_rate=1e-3).algorithm
    assert getattr(marked, "ppo", marked).optimization.learning_rate == Constant(1e-3)


@pytest.mark.parametrize("shape", ["data=1", "data=2,fsdp=2"])
def test_every_algorithm_accumulates_recomputes_and_offloads(algorithm, shape):
    """Network, optimizer, games and buffer do not depend on it; only the rounding differs."""
    name, (plain, metrics) = algorithm
    found, others = learned(name, mesh=mesh(shape), **FEATURES)
    assert_same_but_for_rounding(found.state, plain.state, rtol=2e-3, atol=2e-4)
    assert others.learning == pytest.approx(metrics.learning, rel=5e-3, abs=1e-4)
    acting = jax.tree.leaves(eqx.filter(found.state.collector_state, eqx.is_array))
    assert {len(leaf.sharding.device_set) for leaf in acting} == {found.mesh.size}
    for trainer, kind in ((plain, "device"), (found, "pinned_host")):
        kept = jax.tree.leaves(trainer.state.learner.optimizer_state)
        assert {leaf.sharding.memory_kind for leaf in kept if leaf.ndim} == {kind}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("ppo", "pqn") else pytest.mark.nightly)
        for name in ALGORITHMS
    ],
)
def test_every_algorithm_plays_the_average_and_learns_the_same(name):
    (plain, _), (found, _) = learned(name), learned(name, ema=0.5)
    learner = found.state.learner
    assert_same(found.policy, learner.played)
    for one, other in zip(arrays(learner.policy), arrays(plain.policy), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    apart = [
        np.abs(one - other).max()
        for one, other in zip(arrays(found.policy), arrays(learner.policy), strict=True)
    ]
    assert max(apart) > 1e-4


def traced(name, **changes):
    """How often each feature stands in the program of an update."""
    found = list(equations(traced_update(ALGORITHMS[name](**changes))))
    names = [each.primitive.name for each in found]
    lengths = [each.params["length"] for each in found if each.primitive.name == "scan"]
    return {
        "grad_accum": lengths.count(8),
        "remat": sum("remat" in name or "checkpoint" in name for name in names),
        "offload_optimizer": names.count("device_put"),
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_feature_is_in_the_program_of_every_algorithm(name):
    plain, found = traced(name), traced(name, **{**FEATURES, "grad_accum": 8})
    for feature in FEATURES:
        assert found[feature] > plain[feature], feature


TRACED = {
    **ALGORITHMS,
    "r2d2, lstm": lambda **changes: r2d2(
        probes.truncation(), kind="lstm", sampling=Prioritized(), **changes
    ),
}


@pytest.mark.parametrize("number_format", ["bf16", "f16"])
@pytest.mark.parametrize("name", TRACED)
def test_an_update_has_the_same_shapes_in_every_precision(name, number_format):
    """Traced, not compiled: nothing is promoted, and the state keeps its dtypes."""
    trainer = TRACED[name](precision=number_format)
    state = trainer.abstract_state()
    after, _ = eqx.filter_eval_shape(trainer.algorithm, state)
    shapes = [
        [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]
        for tree in (state, after)
    ]
    assert shapes[0] == shapes[1]
    assert (state.learner.scaling == ()) == (number_format == "bf16")


SPEC = probes.Probe({}).spec
KEY = jax.random.key(0)
LOSS = PPOLoss(value_clip=0.2, auxiliary=AuxiliaryLoss(0.5))
SMALL_NETWORKS = {"mlp": MLPActorCritic, "gru": GRUActorCritic}

# What adding up in another order may change, relative to the largest number of an array.
TOLERANCE = 1e-5


def policy_of(name="mlp"):
    return add_auxiliary_head(SMALL_NETWORKS[name](SPEC, width=16, key=KEY), SPEC, key=KEY)


def gradient_of(policy, batch, parts, *, loss=LOSS, name="f32"):
    step = GradientStep(optax.sgd(1.0), precision(name), single_device(), parts)
    learner = step.init(policy, IDENTITY_SCALE)
    return eqx.filter_jit(step.gradient)(learner, loss, batch)[:2]


def assert_near(one, other, tolerance=TOLERANCE):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(np.abs(b).max(), 1e-3))


@pytest.mark.parametrize("name", SMALL_NETWORKS)
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_come_to_the_whole(name, parts):
    policy = policy_of(name)
    batch = random_batch(policy, SPEC)
    # The gradient, and with it every number that was told: the divergence, too.
    assert_near(gradient_of(policy, batch, parts), gradient_of(policy, batch, 1))


def test_a_part_is_normalised_by_the_whole_minibatch():
    policy = policy_of()
    batch = random_batch(policy, SPEC)
    whole, _ = gradient_of(policy, batch, 1)
    apart, _ = gradient_of(policy, batch, 8, loss=OwnLoss(LOSS))
    with pytest.raises(AssertionError):
        assert_near(apart, whole, 100 * TOLERANCE)


def test_parts_that_would_not_be_equal_are_an_error():
    with pytest.raises(ValueError, match="8 samples of a batch do not divide into 3"):
        part_of(random_batch(policy_of(), SPEC), 0, 3)
    with pytest.raises(ValueError, match="grad_accum 3"):
        make_trainer(probes.value_only(), grad_accum=3)
