"""Flags from the environment: what makes any command small."""

import click
import pytest

from hackmatrix_rl.cli._eval import evaluate_command
from hackmatrix_rl.cli._main import added_flags
from hackmatrix_rl.cli._train import train

from .commands import assert_refused, invoke


def flags(text, command=train):
    return added_flags(command, {"HACKMATRIX_RL_FLAGS": text})


def test_flags_that_a_command_knows_are_added():
    text = "--num-envs=8 --episodes=3 --no-wandb --run-dir='a b'"
    assert flags(text) == ["--num-envs=8", "--no-wandb", "--run-dir=a b"]
    assert flags(text, evaluate_command) == ["--num-envs=8", "--episodes=3"]
    assert flags("") == added_flags(train, {}) == []


@pytest.mark.parametrize("text", ["8", "-n 8", "--run-dir='a"])
def test_what_is_no_flag_is_refused(text):
    with pytest.raises(click.UsageError, match="HACKMATRIX_RL_FLAGS"):
        flags(text)


def test_they_win_over_the_command_line(monkeypatch):
    monkeypatch.setenv("HACKMATRIX_RL_FLAGS", "--num-steps=0")
    assert_refused(invoke("train", "--num-steps", 4), "--num-steps 0")
