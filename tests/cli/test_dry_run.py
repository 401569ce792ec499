"""`train --dry-run`: everything but the run."""

import pytest

from .commands import invoke


@pytest.mark.slow
def test_a_dry_run_says_what_would_be_done_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("train", "--preset", "debug", "--mesh", "data=2", "--dry-run")
    assert result.exit_code == 0, result.output
    for part in (
        "data=2: 2 x cpu",
        "2,048 in 8 updates of 256",
        "parameters",
        "on each device",
        "each device sends",
    ):
        assert part in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_a_run_would(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("train", "--preset", "debug", "--mesh", "data=16", "--dry-run")
    assert result.exit_code == 2
    assert "--num-envs 16 in 2 minibatches are 8 at a time" in result.stderr
    result = invoke("train", "--preset", "cpu", "--mesh", "data=16", "--dry-run")
    assert result.exit_code == 2
    assert "--mesh data=16: needs 16 devices, but there are 8 cpu devices" in result.stderr


@pytest.mark.parametrize("option", ["--run-dir", "--checkpoint-dir"])
def test_a_dry_run_looks_whether_the_folders_can_be_had(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    arguments = ("train", "--preset", "debug", "--dry-run", option)
    result = invoke(*arguments, tmp_path / "file" / "run")
    assert result.exit_code == 2
    assert f"{option} {tmp_path / 'file'}: cannot be written" in result.stderr
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").write_text("{}")
    result = invoke(*arguments, tmp_path / "taken")
    assert result.exit_code == 2
    assert f"{option} {tmp_path / 'taken'}: holds a run already" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"file", "taken"}
