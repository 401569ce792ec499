"""`Trainer.save` and `Trainer.load`, and what a file of theirs may hold."""

import hashlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from agent.probes import make_trainer
from own_algorithm import Reinforce

from hackmatrix_rl.agent import RolloutCollector
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import EvaluateEvery, Trainer, read_tree, write_tree
from hackmatrix_rl.training.sharding import mesh

from .states import assert_same

KEY = jax.random.key(3)


PROBE = probes.observation_matters()
OTHER = MLPActorCritic(PROBE.spec, width=4, depth=1, key=KEY)


def trainer_of(**changes):
    return make_trainer(PROBE, **changes)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of two updates, and the state four updates later."""
    path = tmp_path_factory.mktemp("saved") / "training"
    trainer = trainer_of()
    trainer.start(KEY)
    trainer.dispatch(2)
    trainer.save(path)
    trainer.dispatch(2)
    return path, trainer.state


@pytest.mark.parametrize("started", [False, True])
def test_a_loaded_training_goes_on_bit_by_bit(saved, started):
    path, later = saved
    again = trainer_of()
    if started:
        again.start(jax.random.key(9))
    again.load(path)
    assert int(again.state.update) == 2
    again.dispatch(2)
    assert_same(again.state, later)


@pytest.mark.parametrize("generator", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize("started", [False, True])
def test_keys_of_another_generator_stay_what_they_are(tmp_path, generator, started):
    first, again = trainer_of(), trainer_of()
    first.start(jax.random.key(3, impl=generator))
    first.save(tmp_path / "training")
    if started:
        again.start(KEY)
    again.load(tmp_path / "training")
    assert_same(again.state, first.state)
    for trainer in (first, again) if generator == "rbg" and started else ():
        trainer.dispatch(1)
    assert_same(again.state, first.state)


def test_with_averages_too_and_a_file_without_them_does_not_fit(saved, tmp_path):
    first, straight, again = (trainer_of(ema=0.9) for _ in range(3))
    straight.start(KEY)
    straight.dispatch(4)
    first.start(KEY)
    first.dispatch(2)
    first.save(tmp_path / "training")
    again.load(tmp_path / "training")
    again.dispatch(2)
    assert_same(again.state, straight.state)
    assert_same(again.policy, straight.policy)
    with pytest.raises(ConfigError, match=r"only the modules here have \.learner\.average\."):
        again.load(saved[0])


def test_it_goes_on_on_other_devices(saved):
    path, _ = saved
    on_two = trainer_of(mesh=mesh("data=2"))
    on_two.load(path)
    one = trainer_of()
    one.load(path)
    assert_same(on_two.state, one.state)
    on_two.save(path.with_name("again"))
    assert path.with_name("again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"num_envs": 8}, r"\.collector_state\S* is .* here"),
        ({"policy": OTHER}, r".*\.(learner|collector_state)"),
    ],
    ids=["games", "network"],
)
def test_what_does_not_fit_is_refused_by_its_name_and_nothing_changes(saved, changes, names):
    trainer = trainer_of(**changes)
    trainer.start(KEY)
    before = trainer.place(trainer.state)
    with pytest.raises(ConfigError, match=f"does not fit this trainer: {names}"):
        trainer.load(saved[0])
    assert_same(trainer.state, before)


def forged(change):
    """A file with a header that no trainer writes, and the checksum of that."""

    def of(whole):
        first, rest = whole.split(b"\n", 1)
        header = json.loads(first)
        change(header, header["arrays"])
        content = json.dumps(header).encode() + b"\n" + rest[: -hashlib.sha256().digest_size]
        return content + hashlib.sha256(content).digest()

    return of


def with_array(**changes):
    array = {"name": "a", "dtype": "int8", **changes}
    return forged(lambda header, arrays: arrays.append(array))


def with_first(**changes):
    return forged(lambda header, arrays: arrays[0].update(changes))


def with_key(name=None):
    def change(header, arrays):
        header["random_keys"] = {name or arrays[0]["name"]: "threefry2x32"}

    return forged(change)


def with_another_bit(whole):
    return whole[:-500] + bytes([whole[-500] ^ 1]) + whole[-499:]


DAMAGED = {
    "cut": lambda whole: whole[:-1],
    "longer": lambda whole: whole + b"x",
    "bit": with_another_bit,
    "empty": lambda whole: b"",
    "foreign": lambda whole: b"\x80\x04pickle",
    "huge": with_first(shape=[2**62]),
    "dtype": with_first(dtype="object"),
    "negative": with_first(shape=[-1]),
    "name": with_first(name="\x1b[2J\ud800"),
    "none and huge": with_array(shape=[0, 2**62, 2**62]),
    "none and more than a number holds": with_array(shape=[0, 2**70]),
    "axes": with_array(shape=[0] * 99),
    "twice": forged(lambda header, arrays: arrays.append(arrays[0])),
    "key": with_key("nobody"),
    "key of another shape": with_key(),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_file_that_is_none_is_refused_in_one_line(how, saved, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(DAMAGED[how](saved[0].read_bytes()))
    with pytest.raises(ConfigError) as caught:
        trainer_of().load(path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()


def test_what_has_not_started_is_not_there_or_is_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="training has not started"):
        trainer_of().save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="gone: cannot be read: No such file"):
        trainer_of().load(tmp_path / "gone")
    write_tree(tmp_path / "file", "policy", {"a": jnp.ones(1)})
    with pytest.raises(ConfigError, match="holds a policy, not a training state"):
        trainer_of().load(tmp_path / "file")


def test_every_dtype_comes_back_as_it_was(tmp_path):
    tree = {
        "bfloat16": jnp.array([1.5, -0.0], jnp.bfloat16),
        "bool": jnp.array([True, False]),
        "nan": jnp.array([jnp.nan, jnp.inf]),
        "scalar": jnp.uint32(7),
        "nothing": jnp.zeros((0, 3)),
        "key": jax.random.key(1, impl="rbg"),
        "matrix": jnp.arange(6).reshape(2, 3).T,
    }
    write_tree(tmp_path / "file", "tree", tree)
    stored = read_tree(tmp_path / "file", "tree")
    back = stored.fill(tree)
    assert stored.keys == {"['key']": "rbg"}
    for name, leaf in tree.items():
        words = (jax.random.key_data(x) if name == "key" else x for x in (back[name], leaf))
        one, other = (np.asarray(x) for x in words)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes(), name


def test_another_algorithm_is_saved_evaluated_and_loaded_likewise(tmp_path):
    def trainer():
        environment = CartPole()
        policy = MLPActorCritic(environment.spec, width=8, depth=1, key=KEY)
        return Trainer(Reinforce(environment, policy, RolloutCollector(4), 8))

    first, again = trainer(), trainer()
    seen = first.fit(2 * 32, key=KEY, hooks=[EvaluateEvery(2, episodes=4)])
    assert seen.extra["eval/episodes"] == 4
    first.save(tmp_path / "file")
    again.load(tmp_path / "file")
    for each in (first, again):
        each.fit(4 * 32)
    assert int(again.state.update) == 4
    assert_same(again.state, first.state)
