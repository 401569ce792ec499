"""The optimizers by name against optax's own, and trainings by one of them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.training import OPTIMIZERS, named_optimizer
from training.states import assert_same

KEY = jax.random.key(0)
SHAPES = {"wide": (3, 5), "tall": (6, 2), "bias": (4,), "kernel": (2, 2, 3)}
LARGE = 1e9  # a norm that no gradient has
THEIRS = {
    "adam": optax.adam(1.0, eps=1e-5),
    "adamw": optax.adamw(1.0),
    "adam-atan2": None,  # algorithms/supervised/test_parts.py
    "nadam": optax.nadam(1.0),
    "radam": optax.radam(1.0),
    "adabelief": optax.adabelief(1.0, eps_root=0.0),
    "lion": optax.lion(1.0),
    "muon": optax.contrib.muon(1.0),
    "rmsprop": optax.rmsprop(1.0, eps_in_sqrt=True),
    "sgd": optax.sgd(1.0),
}


def changes_of(optimizer):
    """The changes of three steps on the same gradients."""
    keys = jax.random.split(KEY, 3 * len(SHAPES))
    draws = [
        {name: jax.random.normal(key, SHAPES[name]) for name, key in zip(SHAPES, some, strict=True)}
        for some in keys.reshape(3, -1)
    ]
    weights = jax.tree.map(lambda leaf: 10 * leaf, draws[0])
    state, found = optimizer.init(weights), []
    update = jax.jit(optimizer.update)
    with jax.numpy_dtype_promotion("standard"):  # which optax relies on
        for gradient in draws:
            change, state = update(gradient, state, weights)
            found.append(change)
    return found


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if THEIRS[name] is not None])
def test_an_optimizer_by_name_is_that_of_optax_with_rate_1(name):
    found = changes_of(named_optimizer(name, LARGE)), changes_of(THEIRS[name])
    for ours, theirs in zip(*found, strict=True):
        for array in SHAPES:
            factor = 1.0
            if name == "muon" and len(SHAPES[array]) == 2:  # the scale of Adam's changes
                factor = 0.2 * np.sqrt(SHAPES[array][0])
            np.testing.assert_allclose(ours[array], factor * theirs[array], rtol=1e-5, atol=1e-7)


def test_a_change_of_a_matrix_by_muon_is_as_large_as_one_by_adam():
    for change in changes_of(named_optimizer("muon", LARGE)):
        for name in ("wide", "tall"):
            # The singular values are not quite 1: optax's iteration leaves 0.7 to 1.2.
            size = float(jnp.sqrt(jnp.mean(change[name] ** 2)))
            assert 0.2 * 0.65 < size < 0.2 * 1.25


def test_a_setting_that_an_optimizer_lacks_or_that_is_out_of_range_is_refused():
    for name, settings in OPTIMIZERS.items():
        assert changes_of(named_optimizer(name, **settings))  # every setting arrives
    with pytest.raises(
        ValueError, match=r"momentum 0.9 is no setting of optimizer lion, which has"
    ):
        named_optimizer("lion", momentum=0.9)
    with pytest.raises(ValueError, match=r"nesterov True is no .* has momentum; leave it out$"):
        named_optimizer("sgd", nesterov=True)
    with pytest.raises(ValueError, match="beta1 must be below 1, not 1"):
        named_optimizer("adam", beta1=1.0)
    with pytest.raises(ValueError, match="unknown optimizer 'adamax'; choose one of adam, adamw"):
        named_optimizer("adamax")
    with pytest.raises(TypeError, match=r"optimizer=hackmatrix_rl.training.named_optimizer\('muo"):
        hm.Optimization(optimizer="muon")


@pytest.mark.parametrize(
    ("algorithm", "settings", "known"),
    [
        ("ppo", {}, named_optimizer("adam", 0.5)),
        ("ppo", {"optimizer": "lion", "beta2": 0.95}, named_optimizer("lion", 0.5, beta2=0.95)),
        ("supervised", {}, named_optimizer("adam-atan2", 1.0, beta2=0.95, weight_decay=0.1)),
        ("supervised", {"optimizer": "lion"}, named_optimizer("lion", 1.0)),
    ],
)
def test_the_flags_are_the_arguments(algorithm, settings, known):
    config = make_config("debug", {"algorithm": algorithm, **settings})
    assert config.make_optimizer() is known


def test_several_trainings_by_muon_in_bf16_resume_in_the_same_bits(tmp_path):
    def trainer(seed):
        environment = hm.CartPole()
        policy = hm.MLPActorCritic(environment.spec, width=8, key=jax.random.key(seed))
        sizes = {"num_envs": 8, "num_steps": 4, "num_minibatches": 2, "precision": "bf16"}
        ppo = [
            hm.PPO(environment, policy, optimizer=named_optimizer("muon"), learning_rate=rate,
                   **sizes)
            for rate in (1e-3, 1e-2)
        ]  # fmt: skip
        return hm.Trainer(hm.Population(ppo))

    straight, resumed = trainer(0), trainer(5)
    straight.start(jax.random.split(KEY, 2))
    straight.dispatch(2)
    straight.save(tmp_path / "state")
    resumed.load(tmp_path / "state")
    for each in (straight, resumed):
        each.dispatch(2)
    assert_same(resumed.state, straight.state)
    weights = straight.state.learner.policy
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(weights) if leaf.ndim)
