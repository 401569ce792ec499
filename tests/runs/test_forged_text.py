"""Text in the files of a run that somebody sent steers no terminal and floods no log."""

import json

import pytest
from cli.commands import done, invoke

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.algorithms.self_play import SelfPlayConfig
from hackmatrix_rl.runs._record import read_run
from hackmatrix_rl.runs.config import config_from_dict, field_types, options_of
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Replay
from runs.checkpoints.kept import NEWEST, forge_config, unpack

pytestmark = pytest.mark.view

STEERS = "\x1b]0;owned\x07\x1b[2J\r\x9b5n\u202e\ud800\n"
FREE = ("run_dir", "wandb_project", "wandb_group", "wandb_name", "wandb_tags", "wandb_notes")
"""Texts that no table parses."""


def texts(kind):
    return [each.name for each in options_of(kind) if field_types(each)[0] is str]


def assert_harmless(said):
    said.encode()
    for line in said.split("\n"):
        assert line.isprintable(), line
        assert len(line) <= 605, line


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that somebody sent, as `sent` where the user stands."""
    monkeypatch.chdir(tmp_path)
    return unpack(NEWEST, tmp_path).rename("sent")


@pytest.mark.parametrize("kind", [PPOConfig, SelfPlayConfig])
def test_a_setting_that_floods_is_refused_and_named(kind):
    algorithm = {"algorithm": "self-play"} if kind is SelfPlayConfig else {}
    for name in texts(kind):
        if name == "algorithm":
            continue
        with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')} ") as refused:
            config_from_dict(algorithm | {name: STEERS + "x" * 20_000})
        assert_harmless(str(refused.value))


FORGED = {
    "free texts": dict.fromkeys(FREE, STEERS),
    "code": {"network": f"a{'b' * 480}:c"},
    "unknown": {STEERS: 1},
    **{name: {name: STEERS} for name in ("network", "init", "mesh", "reward", "precision")},
}


@pytest.mark.parametrize("forged", FORGED)
def test_what_is_said_about_a_sent_run_is_printable(run, forged, monkeypatch):
    forge_config(run, **FORGED[forged])
    monkeypatch.setattr("hackmatrix_rl.evaluation.evaluate", lambda *_, **__: 1 / 0)
    for command in (("train", "--resume-run", run), ("eval", run)):
        told = invoke(*command)
        assert told.exit_code in (0, 2) or isinstance(told.exception, ZeroDivisionError)
        assert_harmless(told.stdout)
        assert_harmless(told.stderr)
    for line in (run / "log.txt").read_text().splitlines():
        assert_harmless(line)


def test_a_report_is_written_of_any_text(run):
    settings = json.loads((run / "config.json").read_text())
    forged = dict.fromkeys(texts(PPOConfig), STEERS) | {STEERS: STEERS}
    (run / "config.json").write_text(json.dumps(settings | forged))
    (run / "versions.json").write_text(json.dumps({"starts": [{"commit": STEERS}]}))
    told = done("report", run)
    assert_harmless(told.output)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert all(line.isprintable() for line in page.split("\n"))


@pytest.mark.parametrize("name", ["player", "format", "check", "end", "actions", "config", "seed"])
def test_a_replay_that_steers_or_floods_is_refused(run, name):
    good = Replay(seed=(0, 1), actions=()).as_dict()
    forged = {STEERS: 1} if name == "config" else STEERS + "x" * 20_000
    replays = run / "replays"
    replays.mkdir(exist_ok=True)
    file = replays / "update-9.json"
    file.write_text(json.dumps(good | {name: forged}))
    for command in (("replay", file), ("watch", "random", "--from", file)):
        refused = invoke(*command)
        assert refused.exit_code == 2, refused.output
        assert refused.stdout == ""
        assert_harmless(refused.stderr)
    record = read_run(str(run))
    assert not record.replays
    (line,) = [line for line in record.missing if "update-9.json" in line]
    assert_harmless(line)
