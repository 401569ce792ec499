"""Precision, mesh, network and gradients in parts, in every combination: it trains and resumes."""

import itertools

import jax
import numpy as np
import pytest

from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.algorithms.ppo import PPO, PPOConfig
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs._verify_resume import first_difference
from hackmatrix_rl.runs.checkpoints import CheckpointWriter, find_checkpoint, read_arrays
from hackmatrix_rl.training import Trainer, named_optimizer
from hackmatrix_rl.training.sharding import mesh

pytestmark = pytest.mark.devices

AXES = {
    "precision": ("f32", "bf16", "f16"),
    "mesh": ("data=1", "data=2", "data=2,fsdp=2"),
    "network": ("mlp", "gru", "residual"),
    "grad_accum": (1, 2),
    "optimizer": ("adam", "muon"),
}
EVERY = tuple(itertools.product(*AXES.values()))


def pairs(cell):
    """What a cell tries together, two by two."""
    return set(itertools.combinations(enumerate(cell), 2))


def pairwise_cover():
    """Few cells in which every two values of different axes meet; greedy, so not the fewest."""
    missing = set().union(*map(pairs, EVERY))
    chosen = []
    while missing:
        best = max(EVERY, key=lambda cell: len(pairs(cell) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def cells():
    cover = pairwise_cover()
    rest = [cell for cell in EVERY if cell not in cover]
    name = "{}-{}-{}-{}-{}".format
    first, *others = cover
    marks = {first: (), **dict.fromkeys(others, pytest.mark.nightly)}
    return [
        pytest.param(*cell, id=name(*cell), marks=marks.get(cell, pytest.mark.matrix))
        for cell in (*cover, *rest)
    ]


def save(folder, update, trainer):
    with CheckpointWriter(folder, keep=5, config=PPOConfig()) as checkpoints:
        state = trainer.state
        checkpoints.save(update, policy=state.learner.policy, training=state, counters={})
        [outcome] = checkpoints.wait()
    assert outcome.error is None
    return read_arrays(find_checkpoint(folder), "training")


@pytest.mark.parametrize(("number_format", "devices", "network", "parts", "name"), cells())
def test_it_trains_and_goes_on_bitwise(tmp_path, number_format, devices, network, parts, name):
    environment = CartPole()
    policy = build_network(network, environment.spec, width=8, key=jax.random.key(0))
    trainer = Trainer(
        PPO(
            environment,
            policy,
            precision=precision(number_format),
            mesh=mesh(devices),
            num_envs=16,
            num_steps=8,
            num_minibatches=2,
            update_epochs=1,
            grad_accum=parts,
            optimizer=named_optimizer(name),
        )
    )
    key = jax.random.key(1)
    trainer.start(key)
    before = jax.tree.leaves(trainer.policy)
    trainer.dispatch(1)
    save(tmp_path, 1, trainer)
    metrics = trainer.dispatch(1)
    straight = save(tmp_path / "straight", 2, trainer)

    assert metrics.learning["gradient_steps"] + metrics.learning["skipped"] == 2
    assert metrics.learning["gradient_steps"] > 0
    assert np.isfinite(metrics.learning["value_loss"])
    after = jax.tree.leaves(trainer.policy)
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))

    assert restore_training(trainer, find_checkpoint(tmp_path), key=key) == ()
    trainer.dispatch(1)
    resumed = save(tmp_path / "resumed", 2, trainer)
    assert first_difference(straight, resumed) is None
