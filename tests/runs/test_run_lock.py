"""Two runs do not destroy each other."""

import errno
import fcntl
import json
import shutil
from datetime import datetime
from pathlib import Path

import jax
import pytest
from processes import python

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import RunLock, find_resumable_run, make_run_folder
from hackmatrix_rl.runs._lock import is_locked
from hackmatrix_rl.runs.checkpoints import CheckpointWriter, find_checkpoint
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError


@pytest.mark.parametrize("mode", ["run-dir", "checkpoint-dir"])
def test_of_starts_at_the_same_moment_one_writes(started_together, mode):
    folder, found = started_together
    for turn, starts in enumerate(found[mode]):
        (admitted,) = [start for start in starts if start["refused"] is None]
        refused = [start["refused"] for start in starts if start["refused"] is not None]
        assert all(f"--{mode}" in line and "still being written" in line for line in refused)
        run = folder / mode / admitted["path"]
        assert json.loads((run / "config.json").read_text())["seed"] == admitted["seed"]
        assert json.loads((run / "run.json").read_text())["wandb_id"] == admitted["wandb_id"]
        # What the others made for themselves is gone again.
        names = {path.name for path in (folder / mode / str(turn)).iterdir()}
        assert names <= {run.name, "far"}


def test_automatic_names_never_collide(started_together):
    _, found = started_together
    (starts,) = found["automatic"]
    assert not any(start["refused"] for start in starts)
    assert len({start["path"] for start in starts}) == 24


def config(**settings):
    return make_config("debug", settings)


def checkpoint(folder, update, run):
    """A checkpoint of next to nothing."""
    policy = MLPActorCritic(CartPole().spec, width=2, key=jax.random.key(0))
    with CheckpointWriter(folder, keep=9, config=config(), run=run) as writer:
        writer.save(update, policy=policy, training=policy, counters={})
        (outcome,) = writer.wait()
    return outcome.error


ONE = {"run_id": "one", "wandb_id": "one-1"}
TWO = {"run_id": "two", "wandb_id": "two-2"}


def test_a_checkpoint_folder_that_another_run_uses_is_refused_and_nothing_is_left(here):
    make_run_folder(config(run_dir="one", checkpoint_dir="far"))
    checkpoint(here / "far", 2, ONE)
    with RunLock() as lock, pytest.raises(ConfigError, match="--checkpoint-dir far: holds a run"):
        make_run_folder(config(run_dir="deep/two", checkpoint_dir="far"), lock=lock)
    lock.withdraw()
    assert not (here / "deep").exists()
    assert {path.name for path in (here / "far").iterdir()} == {"2"}


def test_a_live_run_and_a_resume_of_its_checkpoint_folder_are_not_both_admitted(here):
    with RunLock() as mine:
        make_run_folder(config(run_dir="runs/one", checkpoint_dir="far"), lock=mine)
        checkpoint(here / "far", 2, ONE)
        shutil.rmtree("runs")
        with (
            pytest.raises(ConfigError, match=r"--checkpoint-dir far: is still being written by pr"),
            RunLock() as other,
        ):
            find_resumable_run("one", "far", lock=other)
    assert not (here / "runs").exists(), "what the refused one made is gone"
    with RunLock() as other:
        assert find_resumable_run("one", "far", lock=other).update == 2


def test_a_checkpoint_of_another_run_is_refused_by_its_id(here):
    made = make_run_folder(config(run_dir="runs/one", checkpoint_dir="far"))
    checkpoint(here / "far", 2, TWO)
    expected = (
        rf"far holds checkpoints of another run \(two-2\) and none of this run .{made.wandb_id}"
    )
    with pytest.raises(ConfigError, match=expected), pytest.warns(UserWarning, match="two-2"):
        find_checkpoint("one")
    with pytest.raises(ConfigError, match=r"for its checkpoints, but those are of the run 'two'"):
        find_resumable_run("one")
    with pytest.raises(ConfigError, match=r"holds checkpoints of the run two \(id two-2\), not of"):
        find_resumable_run("lost", "far")
    assert find_resumable_run("two", "far").update == 2


def test_a_checkpoint_of_another_run_is_passed_over_where_there_is_one_of_its_own(here):
    made = make_run_folder(config(run_dir="runs/one", checkpoint_dir="far"))
    checkpoint(here / "far", 4, TWO)
    checkpoint(here / "elsewhere", 2, made.identity)
    (here / "elsewhere" / "2").rename(here / "far" / "2")
    told = []
    assert find_checkpoint("one", report=told.append).name == "2"
    assert told == [f"far/4: of another run (two-2, not {made.wandb_id}); it is skipped"]


def test_checkpoints_of_another_run_are_neither_written_among_nor_removed(here):
    checkpoint(here / "far", 2, TWO)
    before = {path.name for path in (here / "far").iterdir()}
    error = checkpoint(here / "far", 2, ONE)
    assert "a checkpoint of another run (two-2) is there" in str(error)
    assert {path.name for path in (here / "far").iterdir()} == before


def test_one_folder_for_both_is_locked_once(here):
    with RunLock() as lock:
        made = make_run_folder(config(run_dir="run", checkpoint_dir="./run/"), lock=lock)
    assert made.config.is_file()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_told_and_goes_on(here, monkeypatch, number):
    def flock(file, operation):
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    made = make_run_folder(config(run_dir="run"))
    assert made.config.is_file()
    [note] = made.notes
    assert "--run-dir run: this file system has no locks" in note


def test_closing_a_lock_whose_folder_was_removed_does_not_free_the_next_one(here):
    folder = here / "run"
    mine, other = RunLock(), RunLock()
    mine.take("--run-dir", folder)
    shutil.rmtree(folder)
    other.take("--run-dir", folder)
    mine.close()
    with pytest.raises(ConfigError, match="is still being written by process"):
        mine.take("--run-dir", folder)
    other.close()
    mine.take("--run-dir", folder)
    mine.close()


def test_a_lock_file_removed_before_the_lock_was_given_is_locked_anew(here, monkeypatch):
    folder = here / "run"
    flock, turns = fcntl.flock, []

    def late(file, operation):
        if not turns:
            (folder / "lock").unlink()
        turns.append(file)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with RunLock() as lock:
        lock.take("--run-dir", folder)
        assert is_locked(folder)
    assert len(turns) == 3


def test_a_garbled_lock_is_no_obstacle(here):
    (here / "run").mkdir()
    (here / "run" / "lock").write_bytes(b"\xff\xfe\x00")
    with RunLock() as lock:
        lock.take("--run-dir", here / "run")
        assert not lock.notes
    # It may be somebody's file.
    assert (here / "run" / "lock.damaged").read_bytes() == b"\xff\xfe\x00"
    assert not (here / "run" / "lock").exists()


def test_a_second_start_in_the_same_second_has_a_name_of_its_own(here):
    def now():
        return datetime(2030, 1, 31)

    paths = [make_run_folder(config(), now=now).path for _ in range(3)]
    names = ["2030-01-31_00-00-00", "2030-01-31_00-00-00_2", "2030-01-31_00-00-00_3"]
    assert [path.name for path in paths] == names


@pytest.fixture(scope="module")
def started_together(tmp_path_factory):
    """A folder, and what became of the processes that `start_together.py` starts there."""
    folder = tmp_path_factory.mktemp("together")
    return folder, json.loads(python(Path(__file__).with_name("start_together.py"), cwd=folder))
