import dataclasses
import errno
import json
import os
import re
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from etils import epath
from orbax.checkpoint import v1 as ocp
from training.states import assert_same

from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.agent.networks import ActorCritic, build_network
from hackmatrix_rl.runs import check_run_folder
from hackmatrix_rl.runs.checkpoints import (
    CheckpointWriter,
    Hold,
    _holds,
    _place,
    check_resumable,
    find_checkpoint,
    hold_checkpoint,
    load,
    read_arrays,
    read_metadata,
    restore,
    save,
)
from hackmatrix_rl.runs.checkpoints._holds import deleting
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError

from .kept import FORMATS, seal, unpack

pytestmark = pytest.mark.smoke

ARRAYS = {"a": jnp.ones(3)}
CONFIG = make_config("debug", {"network": "mlp", "width": 8})


def hackmatrix_policy(seed=0, width=8):
    spec = CONFIG.environment().spec
    return build_network("mlp", spec, width=width, key=jax.random.key(seed))


def write(
    folder, *updates, policy=None, training=None, returns=None, config=CONFIG, more=None, **options
):
    """Saves some updates, and tells how that ended."""
    outcomes = []
    with CheckpointWriter(folder, config=config, **{"keep": 3, **options}) as checkpoints:
        for index, update in enumerate(updates):
            counters = {"env_steps": 10 * update, **(more or {})}
            if returns is not None:
                counters["mean_return"] = returns[index]
            checkpoints.save(
                update,
                policy=hackmatrix_policy() if policy is None else policy,
                training={"count": jnp.int32(update)} if training is None else training,
                counters=counters,
            )
            outcomes += checkpoints.wait()
    return outcomes


def test_what_is_loaded_is_what_was_saved(tmp_path):
    policy = hackmatrix_policy(seed=5)
    write(tmp_path / "run" / "checkpoints", 3, policy=policy)
    loaded = load(tmp_path / "run")
    assert_same(loaded.policy, policy)
    assert_same(load(tmp_path / "run", policy=hackmatrix_policy(seed=1)).policy, policy)
    assert loaded.config == CONFIG
    assert loaded.metadata["update"] == 3
    assert loaded.metadata["counters"] == {"env_steps": 30}
    # Every file of it is watched.
    folder = loaded.folder
    sums = json.loads((folder / "manifest.json").read_text())["sha256"]
    names = {str(path.relative_to(folder)) for path in files_of(Path(folder))}
    assert names == {*sums, "manifest.json"}


@pytest.mark.parametrize("name", [*FORMATS, "names-1"])
def test_what_earlier_versions_wrote_is_read_with_each_version_of_orbax(tmp_path, name):
    unpack(name, tmp_path)
    [checkpoint] = [file.parent for file in tmp_path.rglob("manifest.json")]
    for signed in checkpoint.rglob("commit_success.txt"):
        signed.unlink()  # Orbax before 0.12.3 wrote it in buckets alone
    seal(checkpoint)
    folder = find_checkpoint(checkpoint.parent)
    for part in ("policy", "training"):
        described = json.loads((checkpoint / part / "_METADATA").read_text())["tree_metadata"]
        assert len(read_arrays(folder, part).arrays) == len(described) > 0


def test_what_the_folder_is_called_does_not_matter(tmp_path):
    run = tmp_path / "-proj[old] ~" / "a*b?c$x"
    policy = hackmatrix_policy(seed=5)
    assert [each.error for each in write(run / "checkpoints", 3, policy=policy)] == [None]
    assert_same(load(run).policy, policy)
    shutil.copytree(run, tmp_path / "copy")
    assert_same(load(tmp_path / "copy").policy, policy)


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("back\\slash/cks", "backslash"),
        ("gs://bucket/seed[1]", r"a \["),
        ("/gs/bucket/run", "etils reads this path as gs://bucket/run"),
    ],
)
def test_a_folder_that_cannot_keep_checkpoints_is_refused(here, folder, why):
    with pytest.raises(ConfigError, match=f"cannot keep checkpoints: .*{why}"):
        write(folder, 1)
    with pytest.raises(ConfigError, match=f"--checkpoint-dir .* cannot keep checkpoints: .*{why}"):
        check_run_folder(make_config("debug", {"checkpoint_dir": folder}))
    assert not list(here.iterdir())


class OneArray(ActorCritic):
    """A policy of one array: of several, Orbax goes on to read the others when one fails."""

    logits: jax.Array

    def __call__(self, observation, carry):
        return self.logits, self.logits[0], carry


@pytest.mark.parametrize("lost", ["policy", "training"])
def test_a_save_that_cannot_be_read_is_not_complete(tmp_path, monkeypatch, lost):
    whole = _place._Folder.glob
    monkeypatch.setattr(
        _place._Folder, "glob", lambda self, _: () if lost in self.name else whole(self, _)
    )
    one = OneArray(jnp.zeros(2))
    [failed] = write(tmp_path, 1, policy=one)
    assert "cannot be read: " in str(failed.error)
    with pytest.raises(ConfigError, match="no checkpoint there"):
        load(tmp_path, report=print)
    monkeypatch.undo()
    assert [each.error for each in write(tmp_path, 1, policy=one)] == [None]


@pytest.mark.parametrize("part", ["policy", "training"])
def test_a_save_that_stored_other_arrays_is_not_complete(tmp_path, monkeypatch, part):
    store = ocp.save_checkpointables_async

    def cut(folder, parts):
        hurt = {name: each[:1] for name, each in parts[part].items()}
        return store(folder, {**parts, part: hurt})

    monkeypatch.setattr(ocp, "save_checkpointables_async", cut)
    [failed] = write(tmp_path, 1, training=ARRAYS)
    assert f"its {part} was not stored: " in str(failed.error)


class Units(eqx.Module):
    """The part of a learner that is read with its policy."""

    value_scale: RunningScale


class Training(eqx.Module):
    """The part of a training's state that is read to play."""

    learner: Units


def population(policies, scales):
    """The arguments of `write` for several trainings in one program."""
    stack = partial(jax.tree.map, lambda *leaves: jnp.stack(leaves))
    return {
        "policy": stack(*policies),
        "training": Training(Units(stack(*scales))),
        "config": dataclasses.replace(CONFIG, seeds=len(policies)),
    }


def test_of_several_trainings_the_first_healthy_one_plays(tmp_path):
    """Of five, one was left out, one has no finite weights, and one no finite units of its value.

    In the training that was left out, everything is finite.
    """
    policies = [hackmatrix_policy(seed) for seed in range(5)]
    policies[1] = jax.tree.map(lambda leaf: leaf * jnp.nan, policies[1])
    scales = [RunningScale().update(jnp.arange(2.0) + seed) for seed in range(5)]
    scales[2] = eqx.tree_at(lambda scale: scale.variance, scales[2], jnp.float32(jnp.nan))
    numbers = {f"member/{k}/return": -float(k) for k in range(5)}
    several = population(policies, scales)
    write(tmp_path / "run", 1, more={"member/0/left_out": 1.0, **numbers}, **several)

    told = []
    loaded = load(tmp_path / "run", report=told.append)
    assert loaded.member == 3
    assert_same(loaded.policy, policies[3])
    assert loaded.value_scale().mean == scales[3].mean
    assert_same(load(tmp_path / "run", like=policies[0], report=told.append), policies[3])
    assert len(told) == 2
    for each in told:
        assert "training 3 plays: 3 trainings went wrong" in each

    # Who names one gets that one, or one clear line.
    assert load(tmp_path / "run", member=4, report=told.append).member == 4
    assert load(tmp_path / "run", member="-return", report=told.append).member == 4
    assert load(tmp_path / "run", member=0, report=told.append).member == 0
    assert [each.endswith("training 0 was left out as unhealthy") for each in told[2:]] == [True]
    with pytest.raises(ConfigError, match=r"array \.heads\S+ holds NaN or infinity"):
        load(tmp_path / "run", member=1)
    named = load(tmp_path / "run", member=2)
    with pytest.raises(ConfigError, match=r"\.value_scale\.variance holds NaN or infinity"):
        named.agent()


def test_half_precision_and_random_keys_survive(tmp_path):
    key = jax.random.key(3, impl="rbg")
    tree = {"a": jnp.arange(3, dtype=jnp.bfloat16), "b": (jnp.uint32(7), "text"), "key": key}
    write(tmp_path, 1, training=tree)
    folder = find_checkpoint(tmp_path)
    assert read_metadata(folder)["random_keys"]["training"] == {"['key']": "rbg"}
    restored = restore(folder, "training", tree | {"key": jax.random.key(0, impl="rbg")})
    assert_same(restored, tree)
    assert (restored["a"].dtype, restored["b"][1]) == (jnp.bfloat16, "text")


def test_the_newest_checkpoint_is_found_from_each_place(here):
    run = here / "runs" / "mine"
    write(run / "checkpoints", 2, 10)
    newest = run / "checkpoints" / "10"
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


def test_saving_the_same_update_again_changes_nothing(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 1, policy=hackmatrix_policy(seed=9))
    assert_same(load(tmp_path).policy, hackmatrix_policy(seed=0))


def test_the_best_is_kept_beside_the_newest(tmp_path):
    write(tmp_path, 1, 2, 3, 4, keep=1, keep_best=True, returns=[0.5, 2.5, 1.0, 1.5])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "4"]
    assert find_checkpoint(tmp_path, best=True).name == "2"
    assert find_checkpoint(tmp_path).name == "4"


def test_of_every_so_many_updates_the_first_checkpoint_is_kept(tmp_path):
    write(tmp_path, 0, 5, 9, 10, 17, keep=1, keep_every=5)
    write(tmp_path, 19, 31, 33, 34, keep=1, keep_every=5)  # after a resume
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == [0, 5, 10, 17, 31, 34]


HOLDS = {
    "load": lambda run: load(run, best=True),
    "hm.load": lambda run: load(run / "1"),
    "an upload": Hold,
    "push": lambda run: hold_checkpoint(run, best=True),
}


@pytest.mark.parametrize("hold", HOLDS)
def test_a_checkpoint_that_is_read_is_not_deleted_until_nobody_reads_it(tmp_path, hold):
    write(tmp_path, 1)
    reader = HOLDS[hold](tmp_path / "1" if hold == "an upload" else tmp_path)
    assert [each.error for each in write(tmp_path, 2, 3, keep=1)] == [None, None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]
    assert find_checkpoint(tmp_path / "1").name == "1"
    del reader
    os.link(tmp_path / "3" / "manifest.json", tmp_path / "of a copy")  # cp -al
    assert [each.error for each in write(tmp_path, 4, keep=1)] == [None]
    (tmp_path / "of a copy").unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["4"]


def test_a_checkpoint_deleted_between_the_search_and_the_reading_is_searched_again(
    tmp_path, monkeypatch
):
    write(tmp_path, 1, 2)
    find = _holds.find_checkpoint

    def and_lose_it(run, **options):
        found = find(run, **options)
        if found.name == "2":
            (found / "manifest.json").unlink()
            found.rmtree()
        return found

    monkeypatch.setattr(_holds, "find_checkpoint", and_lose_it)
    folder, hold = hold_checkpoint(tmp_path)
    assert folder.name == "1"
    with deleting(folder) as free:
        assert not free
    del hold
    # While a run deletes it, nobody can begin to read it.
    with deleting(folder) as free, pytest.raises(FileNotFoundError, match="is being deleted"):
        Hold(folder)
    assert free


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def largest_array_file(folder):
    return max(files_of(folder / "training"), key=lambda path: path.stat().st_size)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def with_manifest(text):
    return lambda folder: (folder / "manifest.json").write_text(text)


NO_MANIFEST = "damaged: its manifest cannot be read"

HARMS = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "incomplete: it has no manifest"),
    "a file lost": (lambda f: largest_array_file(f).unlink(), "damaged: .* is missing"),
    "a bit": (lambda f: flip_a_bit(largest_array_file(f)), "damaged: .* is not what was written"),
    "the end": (lambda f: cut_short(largest_array_file(f)), "damaged: .* is not what was written"),
    "metadata": (
        lambda f: flip_a_bit(f / "metadata.json"),
        "damaged: metadata.json is not what was written",
    ),
    **{
        f"manifest {text[:15]!r}": (with_manifest(text), NO_MANIFEST)
        for text in ("{", "[]", '{"sha256": [1]}', '{"sha256": 1}', "\x00", "[" * 10**5)
    },
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(tmp_path, harm):
    write(tmp_path, 1, 2, training={"weights": jnp.arange(1000.0)})
    spoil, words = HARMS[harm]
    spoil(tmp_path / "2")
    told = []
    assert find_checkpoint(tmp_path, report=told.append).name == "1"
    (line,) = told
    assert re.search(f"2: {words}; it is skipped", line)
    with pytest.raises(ConfigError, match=words):
        load(tmp_path / "2")


def test_training_may_write_over_a_state_that_is_being_saved(tmp_path):
    step = jax.jit(lambda array: array + 1, donate_argnums=0)
    state = step(jnp.zeros((1_000_000,)))
    with CheckpointWriter(tmp_path, keep=3, config=CONFIG) as checkpoints:
        checkpoints.save(1, policy=hackmatrix_policy(), training={"a": state}, counters={})
        for _ in range(20):
            state = step(state)
    stored = read_arrays(find_checkpoint(tmp_path), "training").arrays["['a']"]
    assert (stored == 1).all()


@contextmanager
def manifest_does_not_fit():
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hackmatrix_rl.runs.checkpoints._writer.write_manifest", full)
        yield


@contextmanager
def orbax_metadata_do_not_fit():
    """Orbax writes them in a thread, and keeps an error for each file."""
    kind = type(epath.Path())
    write = kind.write_text

    def full(path, *arguments, **options):
        if path.name == "_CHECKPOINT_METADATA":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "write_text", full)
        yield


@pytest.mark.parametrize("full", [manifest_does_not_fit, orbax_metadata_do_not_fit])
def test_a_failure_is_told_by_the_next_look_and_the_next_save_works(tmp_path, full):
    state = {"policy": hackmatrix_policy(), "training": ARRAYS, "counters": {}}
    with CheckpointWriter(tmp_path, keep=3, config=CONFIG) as checkpoints:
        with full():
            checkpoints.save(1, **state)
            [failed] = checkpoints.wait()
        assert failed.update == 1
        assert "No space left" in str(failed.error)
        checkpoints.save(1, **state)
        assert [outcome.error for outcome in checkpoints.wait()] == [None]
        with full():  # the last save: the writer, which has told of it, closes
            checkpoints.save(2, **state)
            assert [outcome.update for outcome in checkpoints.wait()] == [2]
    assert find_checkpoint(tmp_path, report=lambda _: None).name == "1"


@pytest.mark.parametrize("part", ["1.", "policy", "training"])
def test_a_folder_that_cannot_be_made_leaves_no_thread_waiting_for_it(tmp_path, monkeypatch, part):
    make = os.mkdir

    def gone(path, *arguments, **options):
        if Path(path).name.startswith(part):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
        make(path, *arguments, **options)

    before = set(threading.enumerate())
    with CheckpointWriter(tmp_path, keep=3, config=CONFIG) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(os, "mkdir", gone)
            checkpoints.save(1, policy=hackmatrix_policy(), training=ARRAYS, counters={})
            [failed] = checkpoints.wait()
        assert isinstance(failed.error, NotADirectoryError)
        checkpoints.save(1, policy=hackmatrix_policy(), training=ARRAYS, counters={})
        assert [outcome.error for outcome in checkpoints.wait()] == [None]
    # A process that ends waits for every thread that is no daemon.
    assert not [t for t in set(threading.enumerate()) - before if not t.daemon]


def test_what_a_killed_process_left_unfinished_is_cleared_away(tmp_path):
    (tmp_path / "5.orbax-checkpoint-tmp").mkdir(parents=True)
    (tmp_path / "7" / "training").mkdir(parents=True)  # no manifest
    write(tmp_path, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["7"]
    assert find_checkpoint(tmp_path).name == "7"


def test_a_link_in_the_place_of_a_checkpoint_is_not_followed(tmp_path):
    mine, folder = tmp_path / "mine", tmp_path / "run"
    mine.mkdir()
    folder.mkdir()
    (mine / "file").write_text("precious")
    for name in ("7", "7.orbax-checkpoint-tmp"):
        (folder / name).symlink_to(mine)
    assert [each.error for each in write(folder, 7)] == [None]
    assert find_checkpoint(folder).name == "7"
    assert not (folder / "7").is_symlink()
    assert (folder / "7.damaged").is_symlink()
    assert [each.name for each in mine.iterdir()] == ["file"]


def test_a_store_that_cannot_be_asked_is_named(monkeypatch):
    def lacking(path):
        raise ImportError("Please install gcsfs")

    monkeypatch.setattr("etils.epath.gpath.PosixGPath.exists", lacking)
    for ask in (load, lambda run: check_run_folder(make_config("debug", {"checkpoint_dir": run}))):
        with pytest.raises(ConfigError, match="gs://a/b: cannot be reached: Please install gcsfs"):
            ask("gs://a/b")


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    def unreadable(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    save(hackmatrix_policy(), tmp_path / "file")
    monkeypatch.setattr("os.open", unreadable)
    monkeypatch.setattr("os.listdir", unreadable)
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigError, match=f"{path}: cannot be read: Permission denied"):
            load(path, report=print)


def test_weights_that_are_not_finite_are_not_played_but_resumed(tmp_path):
    policy = hackmatrix_policy()
    spoiled = jax.tree.map(lambda leaf: leaf * jnp.nan if eqx.is_array(leaf) else leaf, policy)
    write(tmp_path, 3, policy=spoiled)
    save(spoiled, tmp_path / "file")
    for given in (tmp_path, tmp_path / "3", tmp_path / "file"):
        with pytest.raises(ConfigError, match=rf"{given}.*: its array \S+ holds NaN or infinity"):
            load(given, like=policy)
    with pytest.raises(ConfigError, match=r"3: its array \S+ holds NaN .* an earlier checkpoint"):
        load(tmp_path)
    assert read_arrays(find_checkpoint(tmp_path), "policy").not_finite()  # a resume goes on


def as_format_1(folder):
    """The folder as the first version of this package wrote it."""
    metadata = json.loads((folder / "metadata.json").read_text())
    metadata |= {"format": 1, "versions": {}}
    metadata["config"]["keep_checkpoints"] = metadata["config"].pop("keep")
    (folder / "metadata").mkdir()
    (folder / "metadata" / "metadata").write_text(json.dumps(metadata))
    (folder / "metadata.json").unlink()
    (folder / "manifest.json").unlink()


def test_a_policy_of_the_first_format_plays_and_its_training_is_refused(tmp_path):
    policy = hackmatrix_policy(seed=5)
    write(tmp_path, 3, policy=policy)
    as_format_1(tmp_path / "3")
    loaded = load(tmp_path)
    assert_same(loaded.policy, policy)
    with pytest.raises(ConfigError, match=r"format 1, written by .* 0\.1\.0\. Its policy"):
        check_resumable(loaded.folder, loaded.metadata)


def test_another_network_is_refused_with_the_difference(tmp_path):
    write(tmp_path, 1)
    folder = find_checkpoint(tmp_path)
    with pytest.raises(ConfigError, match=r"not of this network .*: .* in the checkpoint, .* here"):
        restore(folder, "policy", hackmatrix_policy(width=16))
    conv = build_network("conv", CONFIG.environment().spec, width=8, key=jax.random.key(0))
    with pytest.raises(ConfigError, match=r"only the(se settings have| checkpoint has)"):
        restore(folder, "policy", conv)


def test_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._writer.FORMAT", 99)
    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._metadata.PLAYABLE_FORMATS", (99,))
    write(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"format 99, written by hackmatrix-rl 0\.1\.0, but this"):
        load(tmp_path)
