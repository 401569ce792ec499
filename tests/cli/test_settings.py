"""Which of flags, variable, file and preset a setting comes from."""

import click
import pytest
from click.testing import CliRunner

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.cli._eval import evaluate_command
from hackmatrix_rl.cli._main import added_flags
from hackmatrix_rl.cli._settings import chosen_config, config_options
from hackmatrix_rl.cli._train import train
from hackmatrix_rl.runs.config import algorithms_of

from .commands import assert_refused, invoke

pytestmark = pytest.mark.smoke


def config_of(*arguments: str) -> PPOConfig:
    found = []

    @click.command
    @config_options(algorithms_of("train"))
    @click.pass_context
    def command(context, preset, config, **_):
        found.append(chosen_config(context, preset, config, algorithm="ppo"))

    CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    return found[0]


def test_without_options_the_preset_is_that_of_the_device_and_a_typed_one_goes_first(tmp_path):
    assert config_of() == PPOConfig.of_preset("cpu", {})
    file = tmp_path / "my.toml"
    file.write_text('preset = "debug"')
    assert config_of("--config", str(file), "--preset", "cpu") == config_of()


def test_a_flag_goes_before_the_file_and_the_file_before_the_preset(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('preset = "debug"\nseed = 5\nnum_envs = 64')
    config = config_of("--config", str(file), "--seed", "6")
    assert config.seed == 6
    assert config.num_envs == 64
    assert config.num_steps == PPOConfig.presets["debug"]["num_steps"]


@pytest.mark.parametrize(
    ("text", "number"), [("1e6", 1_000_000), ("1_000_000", 1_000_000), ("7", 7)]
)
def test_whole_numbers_may_be_written_as_people_do(text, number):
    assert config_of("--total-timesteps", text).total_timesteps == number


def test_none_and_no_switch_off_even_what_a_file_sets(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text("target_kl = 0.5")
    assert config_of("--config", str(file)).target_kl == 0.5
    assert config_of("--config", str(file), "--target-kl", "none").target_kl is None
    assert config_of().normalize_advantage
    assert not config_of("--no-normalize-advantage").normalize_advantage


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
