"""Flags under old names, foreign names and mistyped names."""

import shlex
from pathlib import Path

import pytest

from hackmatrix_rl.cli._train import next_steps
from hackmatrix_rl.runs.config import RENAMED, advice_for, make_config
from hackmatrix_rl.runs.config._renamed import FOREIGN
from hackmatrix_rl.system.errors import flag

from .commands import assert_refused, done, invoke


@pytest.mark.parametrize("name", RENAMED)
@pytest.mark.parametrize("command", ["train", "bench", "verify-resume"])
def test_an_old_name_works_and_one_line_names_the_new(command, name):
    if command != "train" and name == "keep_checkpoints":
        return  # neither saves checkpoints by number
    # -1 suits none of them: what refuses it is the field of the new name.
    result = invoke(command, flag(name), "-1", "--preset", "debug")
    assert result.exit_code == 2
    first, last = result.stderr.splitlines()
    now = flag(RENAMED[name])
    assert first == f"{flag(name)} is now {now}; the old name works until version 0.3."
    assert last.startswith(f"Error: {now} -1")


def test_a_retired_setting_works_and_one_line_says_what_to_write(tmp_path):
    told = "is now part of {}: constant:0.001 does not change, linear:0.001:0 falls to 0; "
    rest = ("--learning-rate", "0.01", "--env", "cartpole", "--preset", "debug", "--dry-run")
    result = done("train", "--learning-rate-schedule", "constant", *rest)
    assert f"--learning-rate-schedule {told.format('--learning-rate')}" in result.stderr
    assert "learning rate 0.01 throughout" in result.output
    file = tmp_path / "old.toml"
    file.write_text('learning_rate_schedule = "linear"')
    result = done("train", "--config", file, *rest)
    assert f"learning_rate_schedule {told.format('learning_rate')}" in result.stderr
    assert "learning rate 0.01 falling to 0 over" in result.output
    assert "learning-rate-schedule" not in invoke("train", "--help-all").output
    constant = ("--learning-rate-schedule", "constant", "--learning-rate", "cosine:0.01:0")
    result = invoke("train", *constant, "--preset", "debug")
    assert "--learning-rate cosine:0.01:0.0 is a schedule already" in result.stderr


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_tracker_under_its_own_flag_works_and_one_line_says_what_to_write(tmp_path, name):
    file = tmp_path / "old.toml"
    file.write_text(f"{name} = false")
    rest = ("--env", "cartpole", "--preset", "debug", "--dry-run")
    result = done("train", "--config", file, *rest)
    assert f'{name} is now part of tracker = "{name}"; it works until' in result.stderr
    result = invoke("train", f"--{name}", *rest, "--tracker", "mlflow")
    assert f"--{name} is now part of --tracker {name}; it works until version 0.3." in result.stderr
    assert f"--{name} " not in invoke("train", "--help-all").output


def test_old_and_new_together_are_refused_and_a_flag_goes_before_a_file(tmp_path):
    result = invoke("train", "--discount", "0.9", "--gamma", "0.9")
    assert_refused(result, "--discount is the old name of --gamma.", "Give only --gamma.")
    file = tmp_path / "old.toml"
    file.write_text("discount = 0.5")
    result = invoke("train", "--config", file, "--gamma", "-1", "--preset", "debug")
    assert result.exit_code == 2
    assert "discount is now gamma" in result.stderr
    assert "--gamma -1.0 is too small" in result.stderr


def test_an_old_name_is_not_in_the_help_and_may_stand_in_the_variable(monkeypatch):
    assert "--discount" not in invoke("train", "--help").output
    monkeypatch.setenv("HACKMATRIX_RL_FLAGS", "--discount=-1")
    result = invoke("train", "--preset", "debug")
    assert "--discount is now --gamma" in result.stderr
    assert "--gamma -1.0 is too small" in result.stderr


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_flag_is_answered_with_ours(name):
    typed = flag(name)
    result = invoke("train", typed, "1")
    assert_refused(result, f"No such option '{typed}'. {advice_for(name, is_flag=True)}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--lr", "1"], "No such option '--lr'. Use --learning-rate."),
        (["train", "--lr=1"], "No such option '--lr'. Use --learning-rate."),
        (
            ["train", "--no-anneal-lr"],
            "Use --learning-rate linear:0.001:0, say, or --learning-rate constant:0.001.",
        ),
        (["train", "--cuda"], "Use --device gpu."),
        (["train", "--gama", "1"], "No such option '--gama'. Did you mean --gamma?"),
        (["train", "--episodes", "1"], "a flag of hackmatrix-rl eval, analyze, push and compare."),
        (["train", "--json"], "a flag of hackmatrix-rl eval, report, analyze, bench, compare,"),
        (["bench", "--n-envs", "1"], "Use --num-envs."),
        (["bench", "--run-dir", "1"], "It is a flag of hackmatrix-rl train."),
        (["bench", "--track"], "Use --tracker wandb. That is for hackmatrix-rl train."),
        (["verify-resume", "--lr", "1"], "Use --learning-rate."),
        (["eval", "x", "--deterministic"], "Use --greedy."),
        (["eval", "x", "--n-envs", "1"], "No such option '--n-envs'. Use --num-envs."),
        (["eval", "x", "--gamma", "1"], "It is a flag of hackmatrix-rl train."),
        (["eval", "x", "--lr", "1"], "Use --learning-rate. That is for hackmatrix-rl train."),
        (["eval", "x", "--episode", "1"], "Did you mean --episodes?"),
        (["compare", "--num-envs", "1"], "train; here, write it into the TOML file."),
        (["compare", "--seed", "1"], "Use --seeds."),
        (["train", "--discoun", "1"], "Did you mean --gamma?"),
        (["train", "--trace-deca", "1"], "Did you mean --gae-lambda?"),
        (["train", "--qqqq"], "No such option '--qqqq'."),
        (["train", "-q"], "No such option '-q'."),
        (["--lr", "1", "train"], "Flags follow a command: hackmatrix-rl train --lr"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_flag_is_answered_with_the_right_one(arguments, said):
    assert_refused(invoke(*arguments), said)


def test_nothing_is_suggested_that_is_like_nothing():
    assert invoke("train", "--qqqq").stderr == "Error: No such option '--qqqq'.\n"


OWN = {"env": "my_games:Maze", "network": "my_networks:make", "teacher": "my_players:make"}


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("code", [(), ("network",), ("env",), ("env", "network")])
@pytest.mark.parametrize("algorithm", ["ppo", "imitation"])
def test_the_commands_that_a_run_advises_have_their_flags(algorithm, code, done):
    names = (*code, "teacher") if algorithm == "imitation" else code
    config = make_config("debug", {name: OWN[name] for name in names}, algorithm)
    lines = next_steps(config, Path("my runs/a"), done=done)
    assert len(lines) >= 1 + (not done)
    for line in lines:
        program, command, *words = shlex.split(line.split(":  ")[1])
        assert program == "hackmatrix-rl"
        assert "my runs/a" in words
        # All flags are known, and take what they are given: `--help` comes after them.
        result = invoke(command, *words, "--help")
        assert (result.exit_code, result.stderr) == (0, "")
