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
