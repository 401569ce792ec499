"""A run whose folder is taken away while it trains."""

import errno
import json
import os
import shutil
from pathlib import Path

import jax
import pytest

from hackmatrix_rl.checkpoints import find_checkpoint
from hackmatrix_rl.config import make_config
from hackmatrix_rl.runs import (
    RunLock,
    find_resumable_run,
    make_run_folder,
    reopen_run_folder,
    run,
)
from hackmatrix_rl.runs.sinks import (
    JsonLines,
    Length,
    LogFile,
    Sink,
    read_json_lines,
)
from hackmatrix_rl.system import ExitCode, read_json

from .cartpole_command import compose


class Thief(Sink):
    """Does something before the row of an update is written, and keeps what was said."""

    def __init__(self, acts):
        self.acts = acts
        self.notes = []

    def write(self, row):
        if row["updates"] in self.acts:
            self.acts[row["updates"]]()

    def note(self, message):
        self.notes.append(message)
        for words, act in self.acts.items():
            if str(words) in message and isinstance(words, str):
                act()

    def close(self):
        pass

    def said(self, words):
        return [note for note in self.notes if words in note]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(acts, **settings):
    """A run of 8 updates with a row every 2, to which something happens."""
    config = make_config("debug", {"run_dir": "runs/mine", **settings})
    thief = Thief(acts)
    with RunLock() as lock:
        folder = make_run_folder(config, lock=lock)
        thief.acts = {when: (lambda act=act: act(folder)) for when, act in acts.items()}
        trainer = compose(config, key=jax.random.key(0))
        result = run(config, trainer, folder, displays=[thief], lock=lock)
        held = lock.ours(folder.path) and lock.ours(folder.checkpoints)
    return folder, result.exit_code, thief, held


def updates(folder):
    return [row["updates"] for row in read_json_lines(folder.metrics)]


def vanish(folder):
    # In one step: a save that is being written makes folders while others are removed.
    folder.path.rename("removed")
    shutil.rmtree("removed", ignore_errors=True)


def file_instead(folder):
    folder.path.rename("kept")
    folder.path.write_text("")


def test_a_folder_that_vanished_is_told_and_made_again_whole(here):
    before = {}

    def look_and_vanish(folder):
        for file in (folder.config, folder.run, folder.versions):
            before[file.name] = file.read_text()
        vanish(folder)

    folder, status, thief, held = train({4: look_and_vanish}, save_interval_minutes=None)
    assert status is ExitCode.DONE
    assert held, "another process could write it"
    (said,) = thief.said("was removed during")
    assert said == (
        "runs/mine: was removed during the run. Made again: lock, config.json, run.json, "
        "versions.json, metrics.jsonl, log.txt"
    )
    assert thief.said("The checkpoint folder was removed. The next checkpoint is saved at once.")
    assert updates(folder) == [2, 4, 6, 8]
    assert {name: (folder.path / name).read_text() for name in before} == before
    log = folder.log.read_text()
    assert "compiling ..." in log, "what was written before"
    assert said in log
    names = {path.name for path in folder.checkpoints.iterdir()}
    assert names == {"4", "8"}, "one at once, and that of the end"
    assert folder.curve.is_file()

    stopped = find_resumable_run("mine")
    config = stopped.config({"total_timesteps": 12 * 256})
    again = reopen_run_folder(config, stopped.path, stopped.metadata["run"])
    trainer = compose(config, key=jax.random.key(0))
    assert run(config, trainer, again, resume=stopped.checkpoint).exit_code is ExitCode.DONE
    assert updates(folder) == [2, 4, 6, 8, 10, 12]
    assert again.wandb_id == json.loads(before["run.json"])["wandb_id"]


def test_a_folder_that_cannot_be_made_again_for_a_while_is_whole_in_the_end(here):
    folder, status, thief, held = train(
        {2: file_instead, 6: lambda folder: folder.path.unlink()}, save_interval=2
    )
    assert status is ExitCode.DONE
    assert held
    assert thief.said("JsonLines cannot write: ")
    assert thief.said("JsonLines can be written again.")
    assert thief.said("COULD NOT SAVE update 4: ")
    assert updates(folder) == [2, 4, 6, 8]
    assert {folder.config.name, folder.run.name, "versions.json"} <= set(os.listdir(folder.path))
    assert find_checkpoint("mine").name == "8"


def test_a_folder_that_cannot_be_made_again_at_all_is_told_by_the_exit_status(here):
    _, status, thief, _ = train({6: file_instead})
    assert status is ExitCode.UNSAVED
    assert thief.said("JsonLines cannot write: ")
    assert thief.said("trained to the end at 2,048 steps; NOT saved")
    assert Path("runs/mine").read_text() == ""


def test_a_separate_checkpoint_folder_that_vanished_is_made_again(here):
    _, status, thief, held = train(
        {4: lambda folder: shutil.rmtree("far")}, checkpoint_dir="far", save_interval_minutes=None
    )
    assert status is ExitCode.DONE
    assert held
    assert thief.said("The checkpoint folder was removed.")
    assert not thief.said("Made again")
    assert {path.name for path in Path("far").iterdir()} == {"4", "8"}


def test_another_run_in_its_place_is_left_alone(here):
    other = RunLock()
    made = []

    def replace(folder):
        vanish(folder)
        made.append(make_run_folder(make_config("debug", {"run_dir": "runs/mine"}), lock=other))

    folder, status, thief, _ = train({4: replace}, save_interval=8)
    assert status is ExitCode.UNSAVED
    assert thief.said("JsonLines cannot write: [Errno 17] holds another run now (mine-")
    assert thief.said("COULD NOT SAVE update 4: OSError: [Errno 16] is now written by process")
    assert read_json(folder.run)["wandb_id"] == made[0].wandb_id
    assert {path.name for path in folder.path.iterdir()} == {
        *("config.json", "run.json", "checkpoints", "lock")
    }
    assert {path.name for path in folder.checkpoints.iterdir()} == {"lock"}
    other.close()


def test_what_vanishes_at_the_very_end_is_made_again_but_for_the_checkpoints(here):
    folder, status, _, _ = train({"trained to the end": vanish})
    assert status is ExitCode.UNSAVED
    assert updates(folder) == [2, 4, 6, 8]
    assert folder.config.is_file()
    assert "trained to the end" in folder.log.read_text()


def test_a_run_that_is_at_its_end_and_loses_its_checkpoints_saves_them_again(here):
    _, status, _, _ = train({})
    assert status is ExitCode.DONE
    stopped = find_resumable_run("mine")
    config = stopped.config({})
    folder = reopen_run_folder(config, stopped.path, stopped.metadata["run"])
    thief = Thief({"resumed at update 8": lambda: shutil.rmtree(folder.checkpoints)})
    trainer = compose(config, key=jax.random.key(0))
    result = run(config, trainer, folder, resume=stopped.checkpoint, displays=[thief])
    assert result.exit_code is ExitCode.DONE
    assert find_checkpoint("mine").name == "8"


@pytest.mark.parametrize("make", [JsonLines, lambda path: LogFile(path, length=Length(9))])
def test_a_file_that_was_replaced_is_set_aside_and_made_again_whole(tmp_path, make):
    path = tmp_path / "file"
    row = {"updates": 1, "env_steps": 1.0, "steps_per_second": 0.0}
    sink = make(path)
    sink.write(row)
    sink.note("a note")
    whole = path.read_text()
    (tmp_path / "other").write_text("other")
    (tmp_path / "other").replace(path)
    sink.write(row)
    sink.close()
    assert path.read_text().startswith(whole)
    assert len(path.read_text()) > len(whole)
    assert (tmp_path / "file.damaged").read_text() == "other"


def test_rows_that_could_never_be_written_are_told_at_the_end(tmp_path):
    path = tmp_path / "gone" / "file"
    path.parent.mkdir()
    sink = JsonLines(path)
    shutil.rmtree(path.parent)
    with pytest.raises(FileNotFoundError):
        sink.write({"updates": 1})
    with pytest.raises(FileNotFoundError):
        sink.close()


def test_what_cannot_be_read_any_more_is_told_to_be_lost(tmp_path, monkeypatch):
    told = []

    class Told:
        def check(self):
            pass

        def made_again(self, what):
            told.append(what)

    def stale(*_):
        raise OSError(errno.ESTALE, "Stale file handle")

    path = tmp_path / "metrics.jsonl"
    sink = JsonLines(path)
    monkeypatch.setattr(sink._file, "_place", Told())
    sink.write({"updates": 1})
    path.unlink()
    monkeypatch.setattr(os, "pread", stale)
    sink.write({"updates": 2})
    sink.close()
    assert told == ["metrics.jsonl (without its earlier content: Stale file handle)"]
    assert read_json_lines(path) == [{"updates": 2}]
