"""A run on an environment that compiles quickly: its saves, signals, failures, evaluations."""

import errno
import io
import signal
from functools import partial

import pytest
from displays import Notes, interrupt_at

from hackmatrix_rl.runs import make_run_folder, run
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.checkpoints._finder import mean_return
from hackmatrix_rl.runs.checkpoints._manifest import write_manifest
from hackmatrix_rl.runs.sinks import JsonLines, read_json_lines
from hackmatrix_rl.system import ExitCode

from .on_cartpole import go_on, settings, train, trainer_of


def test_ctrl_c_saves_and_ends_cleanly(tmp_path):
    config = settings(tmp_path, eval_episodes=0)
    folder = make_run_folder(config)
    display = Notes(interrupt_at(2))
    before = signal.getsignal(signal.SIGINT)
    result = run(config, trainer_of(config), folder, displays=[display])
    assert result.exit_code is ExitCode.INTERRUPTED
    assert result.env_steps == 512
    assert signal.getsignal(signal.SIGINT) is before
    assert read_metadata(find_checkpoint(tmp_path / "run"))["counters"]["env_steps"] == 512
    assert folder.curve.exists()
    assert "stopped at 512 steps; saved" in display.notes


class Clock(Notes):
    """Every dispatch takes 40 seconds."""

    now = 0.0

    def __call__(self):
        return self.now

    def write(self, row):
        self.now += 40.0


def run_with(tmp_path, **changes):
    clock = Clock()
    return train(settings(tmp_path, **changes), displays=[clock], clock=clock), clock


def saved_updates(tmp_path):
    return sorted(int(path.name) for path in (tmp_path / "run" / "checkpoints").iterdir())


class Full:
    """A disk that is full until it has been tried so often."""

    def __init__(self, attempts):
        self.left = attempts

    def __call__(self, folder):
        self.left -= 1
        if self.left >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_manifest(folder)


def mean_returns(tmp_path):
    """The mean return of each checkpoint by its update."""
    folder = tmp_path / "run" / "checkpoints"
    return {update: mean_return(folder / str(update)) for update in saved_updates(tmp_path)}


def test_a_failed_save_loses_no_episode_of_the_mean_return(tmp_path, monkeypatch):
    class FullAt8(Full):
        def __call__(self, folder):
            return write_manifest(folder) if folder.name != "8" else super().__call__(folder)

    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._writer.write_manifest", FullAt8(1))
    run_with(tmp_path, save_interval=100)
    rows = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    returns = [(row["return"], row["episodes"]) for row in rows if row["episodes"]]
    mean = sum(each * count for each, count in returns) / sum(count for _, count in returns)
    assert mean_returns(tmp_path)[8] == pytest.approx(mean)


def test_a_failed_save_is_told_at_once_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._writer.write_manifest", Full(1))
    result, clock = run_with(tmp_path, save_interval_minutes=1.0)
    told = [note for note in clock.notes if "COULD NOT SAVE" in note]
    assert len(told) == 1
    assert "update 0: OSError: [Errno 28] No space left on device" in told[0]
    assert result.exit_code is ExitCode.DONE
    assert saved_updates(tmp_path)[-1] == 8


def test_a_run_that_could_not_save_its_end_trains_on_and_says_so_in_its_exit_code(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._writer.write_manifest", Full(99))
    result, clock = run_with(tmp_path, save_interval=3)
    assert result.exit_code is ExitCode.UNSAVED
    assert result.env_steps == 2048
    assert len([note for note in clock.notes if "COULD NOT SAVE" in note]) >= 3


def test_metrics_that_a_full_disk_does_not_take_are_written_later(tmp_path, monkeypatch):
    rows, refused = [], []
    write = JsonLines.write

    def sometimes_full(sink, row):
        if row["updates"] == 4:
            monkeypatch.setattr(sink._file, "_open", partial(FullDisk, sink._file._path))
            refused.append(row)
        elif refused:
            monkeypatch.undo()
        write(sink, row)

    monkeypatch.setattr(JsonLines, "write", sometimes_full)
    result, clock = run_with(tmp_path)
    rows = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["updates"] for row in rows] == [2, 4, 6, 8]
    assert any("JsonLines cannot write: [Errno 28]" in note for note in clock.notes)
    assert any("JsonLines can be written again" in note for note in clock.notes)
    assert result.exit_code is ExitCode.DONE


def test_rows_that_a_full_disk_takes_no_more_are_counted_and_the_exit_code_says_so(
    tmp_path, monkeypatch
):
    write = JsonLines.write

    def full(sink, row):
        if row["updates"] == 4:
            disk = FullDisk(sink._file._path)
            monkeypatch.setattr(sink._file, "_open", lambda: disk)
        write(sink, row)

    monkeypatch.setattr(JsonLines, "write", full)
    result, clock = run_with(tmp_path)
    assert any("JsonLines cannot write: [Errno 28]" in note for note in clock.notes)
    assert "No space left on device; 3 lines that waited are lost" in clock.notes[-1]
    assert result.exit_code is ExitCode.UNSAVED


class FullDisk(io.RawIOBase):
    """An opened file, which takes ten more bytes."""

    def __init__(self, path):
        self.path, self.left = path, 10

    def close(self):
        """It is opened again."""

    def write(self, data):
        if not self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, self.left = data[: self.left], 0
        with self.path.open("ab") as file:
            return file.write(taken)


@pytest.mark.parametrize(
    ("often", "updates"),
    [({"save_interval_minutes": 1.0}, [0, 4, 8]), ({"save_interval": 3}, [3, 6, 8])],
    ids=["minutes", "updates"],
)
def test_checkpoints_are_written_as_often_as_is_said(tmp_path, often, updates):
    run_with(tmp_path, **often)
    assert saved_updates(tmp_path) == updates


EVALUATED = {"eval_interval": 3, "eval_interval_episodes": 4, "mesh": "data=1"}


def rows_of(folder):
    return read_json_lines(folder / "metrics.jsonl")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A run of 8 updates in dispatches of up to 2, evaluated at every third."""
    folder = tmp_path_factory.mktemp("evaluated")
    assert train(settings(folder, total_timesteps=2048, **EVALUATED)).exit_code == 0
    return folder / "run"


def test_the_rows_have_it_at_every_multiple_whatever_the_dispatches(evaluated):
    rows = rows_of(evaluated)
    assert [row["updates"] for row in rows if "eval/return" in row] == [3, 6]
    (first, _) = [row for row in rows if "eval/return" in row]
    assert first["eval/episodes"] == 4
    assert first["eval/return_low"] < first["eval/return"] < first["eval/return_high"]
    assert [row["updates"] for row in rows] == [2, 3, 5, 6, 8]
    assert all(row["mfu"] > 0 for row in rows)
    assert "update 3: evaluated on 4 games: return " in (evaluated / "log.txt").read_text()


def test_a_resumed_run_is_evaluated_where_it_would_have_been_on_the_same_games(evaluated, tmp_path):
    train(settings(tmp_path, total_timesteps=1024, **EVALUATED))
    go_on(tmp_path, total_timesteps=2048)
    straight, resumed = (
        {
            row["updates"]: {name: row[name] for name in row if name.startswith("eval/")}
            for row in rows_of(folder)
            if "eval/return" in row
        }
        for folder in (evaluated, tmp_path / "run")
    )
    assert resumed == straight
