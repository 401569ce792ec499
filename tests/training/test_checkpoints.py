import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import MLPActorCritic, build_network
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.checkpoints import (
    CheckpointWriter,
    find_checkpoint,
    load,
    read_metadata,
    restore,
)
from hackmatrix_rl.training.compose import make_environment
from hackmatrix_rl.training.config import ConfigError
from hackmatrix_rl.training.presets import make_config

CONFIG = make_config("debug", {"network": "mlp", "width": 8})


def hackmatrix_policy(seed=0, width=8):
    spec = make_environment(CONFIG).spec
    return build_network("mlp", spec, width=width, key=jax.random.key(seed))


def write(folder, *updates, policy=None, training=None, keep=3):
    with CheckpointWriter(folder, keep=keep, config=CONFIG) as checkpoints:
        for update in updates:
            checkpoints.save(
                update,
                policy=hackmatrix_policy() if policy is None else policy,
                training={"count": jnp.int32(update)} if training is None else training,
                counters={"env_steps": 10 * update},
            )


def assert_same_arrays(left, right):
    left, right = (jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (left, right))
    assert len(left) == len(right) > 0
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


def test_what_is_loaded_is_what_was_saved(tmp_path):
    policy = hackmatrix_policy(seed=5)
    write(tmp_path / "run" / "checkpoints", 3, policy=policy)
    loaded = load(tmp_path / "run")
    assert_same_arrays(loaded.policy, policy)
    assert loaded.config == CONFIG
    assert loaded.metadata["update"] == 3
    assert loaded.metadata["counters"] == {"env_steps": 30}


def test_a_whole_training_state_survives_keys_and_environments_included(tmp_path):
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
    trainer = Trainer(environment, policy, num_envs=4, num_steps=4, num_minibatches=2)
    trainer.start(jax.random.key(1))
    write(tmp_path, 1, policy=policy, training=trainer.state)
    other = Trainer(environment, policy, num_envs=4, num_steps=4, num_minibatches=2)
    other.start(jax.random.key(2))
    restored = restore(find_checkpoint(tmp_path), "training", other.state)
    assert_same_arrays(restored, trainer.state)


def test_half_precision_survives(tmp_path):
    tree = {"a": jnp.arange(3, dtype=jnp.bfloat16), "b": (jnp.uint32(7), "text")}
    write(tmp_path, 1, training=tree)
    restored = restore(find_checkpoint(tmp_path), "training", tree)
    assert_same_arrays(restored, tree)
    assert restored["b"][1] == "text"


def test_the_newest_checkpoint_is_found_from_each_place(tmp_path, monkeypatch):
    run = tmp_path / "runs" / "mine"
    write(run / "checkpoints", 2, 10)
    newest = run / "checkpoints" / "10"
    monkeypatch.chdir(tmp_path)
    for place in (run, run / "checkpoints", newest, "mine", "runs/mine"):
        assert find_checkpoint(place).resolve() == newest
    assert find_checkpoint(run / "checkpoints" / "2").name == "2"


def test_checkpoints_outside_of_the_run_are_found_through_its_config(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, 4)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"checkpoint_dir": str(elsewhere)}))
    assert find_checkpoint(run) == elsewhere / "4"


@pytest.mark.parametrize("make", [False, True])
def test_a_place_without_a_checkpoint_is_named(tmp_path, make):
    place = tmp_path / "run"
    if make:
        place.mkdir()
    with pytest.raises(ConfigError, match="run: no checkpoint there"):
        load(place)


def test_only_the_newest_are_kept(tmp_path):
    write(tmp_path, 1, 2, 3, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]


def test_saving_the_same_update_again_changes_nothing(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 1, policy=hackmatrix_policy(seed=9))
    assert_same_arrays(load(tmp_path).policy, hackmatrix_policy(seed=0))


def test_another_network_is_refused_with_the_difference(tmp_path):
    write(tmp_path, 1)
    folder = find_checkpoint(tmp_path)
    with pytest.raises(ConfigError, match=r"not of this network: .* in the checkpoint, .* in the"):
        restore(folder, "policy", hackmatrix_policy(width=16))
    conv = build_network("conv", make_environment(CONFIG).spec, width=8, key=jax.random.key(0))
    with pytest.raises(ConfigError, match="not of this network: only the"):
        restore(folder, "policy", conv)


def test_a_network_composed_by_hand_is_filled_in(tmp_path):
    policy = hackmatrix_policy(seed=5, width=4)
    write(tmp_path, 1, policy=policy)
    loaded = load(tmp_path, policy=hackmatrix_policy(seed=1, width=4))
    assert_same_arrays(loaded.policy, policy)


def test_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.training.checkpoints.FORMAT", 99)
    write(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="checkpoint format 99, but this version reads format 1"):
        load(tmp_path)


def test_random_keys_are_named_in_the_metadata(tmp_path):
    write(tmp_path, 1, training={"key": jax.random.key(3, impl="rbg")})
    folder = find_checkpoint(tmp_path)
    assert read_metadata(folder)["random_keys"]["training"] == {"['key']": "rbg"}
    restored = restore(folder, "training", {"key": jax.random.key(0, impl="rbg")})
    assert (
        jax.random.key_data(restored["key"]).tolist()
        == jax.random.key_data(jax.random.key(3, impl="rbg")).tolist()
    )
