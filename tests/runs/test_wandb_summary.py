"""What Weights & Biases gets when a run has ended: a table of evaluations, and a film."""

import dataclasses
import shlex

import click
import numpy as np
import pytest

from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.runs import _monitor as sent
from hackmatrix_rl.runs import make_run_folder, send_summary
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system import wandb_sync
from hackmatrix_rl.view.replays import Match, Replay


class Service:
    """What was sent, and whether it was closed."""

    def __init__(self):
        self.tables, self.films, self.closed = {}, [], False

    def table(self, name, rows):
        self.tables[name] = rows

    def film(self, draw):
        self.films.append(draw().read_bytes()[:6])

    def close(self):
        self.closed = True


@pytest.fixture
def run(tmp_path):
    config = make_config("debug", {"tracker": "wandb", "run_dir": str(tmp_path / "run")})
    return config, make_run_folder(config)


@pytest.fixture
def service(monkeypatch):
    made = Service()
    monkeypatch.setattr(sent, "open_wandb", lambda *given: made)
    return made


def evaluations():
    won = np.array([True, False, False, True])
    values = {"return": np.arange(4.0), "won": won}
    return {"trained": Evaluation(episodes=4, values=values, unfinished=0)}


def test_the_table_has_a_row_for_each_player_and_the_film_is_a_gif(run, service):
    config, folder = run
    told = []
    folder.replays.mkdir()
    Replay.from_match(Match.start(seed=3)).save(
        folder.replays / "update-00000008_return-1.00_stage-1.json"
    )
    send_summary(config, folder, evaluations(), note=told.append)
    (row,) = service.tables["final evaluations"]
    assert row["player"] == "trained"
    assert (row["episodes"], row["return"], row["won"]) == (4, 1.5, 0.5)
    assert row["won low"] < 0.5 < row["won high"]
    assert service.films == [b"GIF89a"]
    assert (folder.path / "replay.gif").exists()
    assert service.closed
    assert told == []


def test_a_run_without_replays_sends_the_table_alone(run, service):
    send_summary(*run, evaluations(), note=pytest.fail)
    assert list(service.tables) == ["final evaluations"]
    assert service.films == []


def test_what_fails_is_told_and_the_service_is_closed(run, service):
    told = []

    def table(name, rows):
        raise OSError("no route")

    service.table = table
    send_summary(*run, evaluations(), note=told.append)
    (line,) = told
    assert "could not send the final evaluations to Weights & Biases: OSError: no route" in line
    assert service.closed


def test_offline_the_curves_stay_in_the_one_folder_that_is_named(run, monkeypatch):
    config, folder = run
    told = []
    monkeypatch.setattr(sent, "open_wandb", lambda *given: pytest.fail("begins a second folder"))
    offline = dataclasses.replace(config, wandb_mode="offline")
    send_summary(offline, folder, evaluations(), note=told.append)
    (line,) = told
    command = line.partition(":  ")[2].partition("    ")[0]
    assert command.endswith(f" {folder.path}/wandb/offline-run-*")
    # The installed version knows the command, which sends the folder of each start.
    started = folder.path / "wandb" / "offline-run-1"
    started.mkdir(parents=True)
    words = shlex.split(command.replace("offline-run-*", started.name))
    assert words[:2] == ["wandb", "sync"]
    with wandb_sync_command().make_context("sync", words[2:]) as context:
        assert words[-1] in map(str, context.params.get("paths") or context.params["path"])


def wandb_sync_command():
    return pytest.importorskip("wandb.cli.cli").sync


@pytest.mark.parametrize(("option", "added"), [("--append", ("--append",)), ("--yes", ())])
def test_the_folders_of_all_starts_are_sent_as_the_version_of_the_library_needs(
    monkeypatch, option, added
):
    """Without `--append` old versions write the second folder over the first."""
    sync = click.Command("sync", params=[click.Option([option], is_flag=True)])
    monkeypatch.setattr("wandb.cli.cli.sync", sync)
    assert wandb_sync() == ("wandb", "sync", *added)
