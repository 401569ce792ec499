"""A run whose folder is removed while it trains ends with one line and status 4."""

import shutil
from pathlib import Path
from unittest import mock

import pytest
from displays import Notes

from hackmatrix_rl.runs import make_run_folder, run
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system import ExitCode, read_json

from .on_cartpole import trainer_of


def train(act, **settings):
    """A run of 8 updates, 2 in a dispatch, to whose folder something happens after the fourth."""
    config = make_config("debug", {"run_dir": "runs/mine", **settings})
    folder = make_run_folder(config)
    trainer = trainer_of(config)
    dispatch = trainer.dispatch

    def dispatch_and_act(updates):
        metrics = dispatch(updates)
        if int(trainer.state.update) == 4:
            act(folder)
        return metrics

    told = Notes()
    with mock.patch.object(trainer, "dispatch", dispatch_and_act):
        result = run(config, trainer, folder, displays=[told])
    return folder, result, told.notes


def vanish(folder):
    shutil.rmtree(folder.path)


def file_instead(folder):
    vanish(folder)
    folder.path.write_text("")


@pytest.mark.parametrize("act", [vanish, file_instead])
def test_a_removed_folder_ends_the_run_with_one_line(here, act):
    folder, result, notes = train(act, save_interval_minutes=None)
    assert result.exit_code is ExitCode.UNSAVED
    assert result.update == 4
    assert notes[-1] == ("runs/mine was removed during the run; stopped at 1,024 steps; NOT saved")
    assert not [note for note in notes if "cannot" in note.lower() or "could not" in note.lower()]
    assert not folder.path.is_dir(), "nothing is made again"


def test_a_removed_checkpoint_folder_ends_the_run_and_the_log_tells_it(here):
    folder, result, notes = train(
        lambda folder: shutil.rmtree("far"), checkpoint_dir="far", save_interval_minutes=None
    )
    assert result.exit_code is ExitCode.UNSAVED
    assert notes[-1].startswith("far was removed during the run; stopped at")
    assert notes[-1] in folder.log.read_text()
    assert not Path("far").exists()


def test_another_run_in_its_place_is_left_alone(here):
    made = []

    def replace(folder):
        vanish(folder)
        made.append(make_run_folder(make_config("debug", {"run_dir": "runs/mine"})))

    folder, result, _ = train(replace, save_interval=4)
    assert result.exit_code is ExitCode.UNSAVED
    assert read_json(folder.run)["wandb_id"] == made[0].wandb_id
    assert {path.name for path in folder.path.iterdir()} == {
        "config.json",
        "run.json",
        "checkpoints",
    }
    assert not list(folder.checkpoints.iterdir())


def test_a_folder_that_vanishes_at_the_very_end_is_told_by_line_and_status(here, monkeypatch):
    monkeypatch.setattr(
        "hackmatrix_rl.runs._saving.CheckpointScheduler.finish",
        lambda self, trainer: shutil.rmtree("runs/mine"),
    )
    _, result, notes = train(lambda folder: None)
    assert result.exit_code is ExitCode.UNSAVED
    assert notes[-1].startswith("runs/mine was removed during the run; trained to the end at 2,048")
    assert notes[-1].endswith("; NOT saved")
