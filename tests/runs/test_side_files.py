"""A run is gone on with whatever became of the small files beside its checkpoints."""

import errno
import json
import os
import shutil
import stat

import jax
import pytest
from displays import Notes

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import RunLock, find_resumable_run, make_run_folder, reopen_run_folder
from hackmatrix_rl.runs._monitor import RunMonitor, open_sinks
from hackmatrix_rl.runs._wall_time import WallTime
from hackmatrix_rl.runs.checkpoints import CheckpointWriter, find_checkpoint
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import forget_rows_after, read_json_lines
from hackmatrix_rl.system import read_json, write_whole
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Metrics

from .on_cartpole import go_on, settings, train

ROWS = [{"updates": number, "env_steps": 256 * number, "return": None} for number in (1, 2)]


def save(folder, update, run):
    policy = MLPActorCritic(CartPole().spec, width=2, key=jax.random.key(0))
    config = make_config("debug", {})
    with CheckpointWriter(folder, keep=9, config=config, run=run) as writer:
        writer.save(update, policy=policy, training=policy, counters={"mean_return": 1.0})
        assert writer.wait()[0].error is None


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run's folder as a run leaves it."""
    path = tmp_path_factory.mktemp("whole") / "run"
    config = make_config("debug", {"run_dir": str(path)})
    folder = make_run_folder(config)
    save(folder.checkpoints, 2, folder.identity)
    sink = open_sinks(config, folder)
    with RunMonitor(config, folder, sink, WallTime()):
        sink.note("compiling ...")
    sink.close()
    folder.metrics.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    folder.summary.write_text("{}\n")
    return path


@pytest.fixture
def mine(whole, tmp_path, monkeypatch):
    """That folder under `runs/`, to damage."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole, tmp_path / "runs" / "mine")
    return tmp_path / "runs" / "mine"


def reopen(name):
    """Everything that going on does with a run's folder, but the training."""
    display = Notes()
    with RunLock() as lock:
        stopped = find_resumable_run(name, lock=lock)
        config = stopped.config({})
        identity = stopped.metadata["run"]
        folder = reopen_run_folder(config, stopped.path, identity, lock=lock)
        stopped.set_damaged_aside()
        notes = [*stopped.notes, *folder.notes, *forget_rows_after(folder.metrics, stopped.update)]
        sink = open_sinks(config, folder, [display])
        with RunMonitor(config, folder, sink, WallTime()):
            sink.note("resumed")
        sink.close()
    assert stopped.update == 2
    return folder, notes + [note for note in display.notes if note != "resumed"]


def test_the_checks_of_a_resumed_run_know_what_it_logged(mine):
    game = {"siphons": 1.6, "programs": 3.0, "undos": 1.0, "owns_undo": 0.5, "length": 60.0}
    row = {**ROWS[-1], "episodes": 2000, **game}
    (mine / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    folder, _ = reopen("mine")
    told = Notes()
    with RunMonitor(make_config("debug", {}), folder, told, WallTime()) as watch:
        watch.look(Metrics(900, 3, 1.0, 900.0, episodes=2000, episode={**game, "siphons": 0.1}))
    assert [note for note in told.notes if "0.1 siphons a game, after 1.6" in note]


def test_what_is_whole_is_told_nothing_of(mine):
    folder, notes = reopen("mine")
    assert notes == []
    assert read_json_lines(folder.metrics) == ROWS
    assert len(read_json(folder.versions)["starts"]) == 2


def truncated(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def folder_instead(file):
    file.unlink()
    file.mkdir()
    (file / "something").write_text("")


DAMAGE = {
    "empty": lambda file: file.write_bytes(b""),
    "garbled": lambda file: file.write_bytes(b"\xff\xfe\x00garbled\n\x80\n"),
    "truncated": truncated,
    "list": lambda file: file.write_text("[1, 2]\n"),
    "number": lambda file: file.write_text("7\n"),
    "other": lambda file: file.write_text('{"starts": [1], "wandb_id": 7, "checkpoint_dir": 3}\n'),
    "nested": lambda file: file.write_text("[" * 100_000 + "\n"),
    "folder": folder_instead,
    "missing": lambda file: file.unlink(),
}
SIDE_FILES = (
    *("config.json", "run.json", "versions.json", "metrics.jsonl", "log.txt", "summary.json"),
)
# What is told: what is lost. The others are text that people read, or written again as they were.
TOLD = ("versions.json", "metrics.jsonl")
NO_LOSS = {("metrics.jsonl", "truncated"), ("versions.json", "missing")}


@pytest.mark.parametrize("damage", [damage for damage in DAMAGE if damage != "folder"])
@pytest.mark.parametrize("name", SIDE_FILES)
def test_a_run_goes_on_beside_a_damaged_file(mine, name, damage):
    wandb_id = read_json(mine / "run.json")["wandb_id"]
    DAMAGE[damage](mine / name)
    told = []
    assert find_checkpoint("mine", report=told.append).name == "2"
    folder, notes = reopen("mine")
    assert len(notes) == (name in TOLD and (name, damage) not in NO_LOSS)
    assert all(name in note for note in notes)
    assert read_json(folder.config)["num_envs"] == make_config("debug", {}).num_envs
    assert read_json(folder.run) == {"run_id": "mine", "wandb_id": wandb_id}
    assert read_json(folder.versions)["starts"]
    assert folder.log.read_bytes().endswith(b"resumed\n")
    again = reopen("mine")[1]
    # Rows that are lost are told of until there are new ones.
    assert all("metrics.jsonl" in note for note in again)
    assert name == "metrics.jsonl" or not again, "mended for good"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_run_is_found_by_its_id_beside_a_damaged_one(mine, damage):
    wandb_id = read_json(mine / "run.json")["wandb_id"]
    shutil.copytree(mine, mine.with_name("a_run_before"))
    DAMAGE[damage](mine.with_name("a_run_before") / "run.json")
    for file in mine.with_name("a_run_before").glob("checkpoints/*"):
        shutil.rmtree(file)
    assert find_resumable_run(wandb_id).path.name == "mine"


def test_rows_beside_damaged_lines_are_kept(mine):
    lines = (mine / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], b"\xff\x00{\n", b'{"updates": "x"}\n', b'{"a": 1}\n', lines[1]])
    (mine / "metrics.jsonl").write_bytes(damaged)
    folder, notes = reopen("mine")
    assert notes == [f"{folder.metrics}: held damaged lines (3), which are removed"]
    assert read_json_lines(folder.metrics) == ROWS


@pytest.mark.parametrize("name", SIDE_FILES)
def test_a_folder_in_place_of_a_file_is_refused_by_its_name(mine, name):
    folder_instead(mine / name)
    with pytest.raises(ConfigError, match=f"{name}: is not a file that can be written"):
        reopen("mine")


def test_a_file_that_may_not_be_written_is_refused_by_its_name(mine, monkeypatch):
    # Permissions do not stop the tests where they run as root.
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path.name != "log.txt" and access(path, mode)
    )
    with pytest.raises(ConfigError, match=r"log\.txt: is not a file that can be written"):
        reopen("mine")


@pytest.mark.parametrize("name", ["²", "٣", "007", "-1", "1e3"])
def test_an_entry_that_is_no_number_is_no_checkpoint(mine, name):
    (mine / "checkpoints" / name).mkdir()
    assert find_checkpoint("mine", report=pytest.fail).name == "2"
    assert find_resumable_run("mine").update == 2


def test_a_file_where_a_checkpoint_should_be_is_passed_over_and_set_aside(mine):
    (mine / "checkpoints" / "4").write_text("")
    told = []
    assert find_checkpoint("mine", report=told.append).name == "2"
    assert told == ["runs/mine/checkpoints/4: no folder; it is skipped"]
    _, (note,) = reopen("mine")
    assert "4: no folder" in note
    assert (mine / "checkpoints" / "4.damaged").is_file()
    # And where the next checkpoint goes.
    (mine / "checkpoints" / "6").write_text("")
    save(mine / "checkpoints", 6, read_json(mine / "run.json"))
    assert (mine / "checkpoints" / "6.damaged").is_file()
    assert find_checkpoint("mine").name == "6"


@pytest.mark.parametrize("damage", ["empty", "garbled", "list", "folder"])
def test_damaged_metadata_stop_neither_the_best_nor_the_next_checkpoint(mine, damage):
    save(mine / "checkpoints", 4, read_json(mine / "run.json"))
    DAMAGE[damage](mine / "checkpoints" / "4" / "metadata.json")
    assert find_checkpoint("mine", best=True, report=str).name == "2"
    save(mine / "checkpoints", 6, read_json(mine / "run.json"))
    assert find_checkpoint("mine").name == "6"


def test_a_run_without_a_wandb_id_gets_one(mine):
    shutil.rmtree(mine / "checkpoints")
    save(mine / "checkpoints", 2, {})
    (mine / "run.json").unlink()
    folder, notes = reopen("mine")
    assert folder.wandb_id.startswith("mine-")
    assert f"has no wandb id; the run is {folder.wandb_id} from here on" in notes[0]
    assert find_resumable_run(folder.wandb_id).path.name == "mine"


def test_a_checkpoint_that_tells_no_run_does_not_make_a_folder_again(mine):
    save("far", 2, {})
    with pytest.raises(ConfigError, match="far holds no checkpoint that names its run"):
        find_resumable_run("lost", "far")


def test_everything_damaged_at_once_is_trained_on_from(tmp_path):
    path = tmp_path / "run"
    train(settings(tmp_path, total_timesteps=512))
    for name in ("config.json", "run.json", "versions.json", "metrics.jsonl", "log.txt"):
        DAMAGE["garbled"](path / name)
    display = Notes()
    assert go_on(tmp_path, displays=[display], total_timesteps=1024).exit_code == 0
    for name in ("versions.json", "metrics.jsonl"):
        assert sum(f"/{name}:" in note for note in display.notes) == 1, name
    assert [row["updates"] for row in read_json_lines(path / "metrics.jsonl")] == [4]
    assert find_checkpoint(path).name == "4"


def test_a_small_file_is_flushed_before_it_is_renamed_and_its_folder_after(tmp_path, monkeypatch):
    file, done = tmp_path / "file", []
    fsync = os.fsync

    def synced(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append((kind, file.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    write_whole(file, "whole\n")
    assert done == [("file", False), ("folder", True)]
    assert file.read_text() == "whole\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_small_file_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "file"
    write_whole(file, "before")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, "after")
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
