"""The settings of self-play."""

import dataclasses

import pytest

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.algorithms.r2d2 import R2D2Config
from hackmatrix_rl.algorithms.self_play import SelfPlayConfig
from hackmatrix_rl.config import config_from_dict, read_settings
from hackmatrix_rl.errors import ConfigError


def test_stored_settings_are_of_their_algorithm_and_those_of_others_have_no_effect():
    config = SelfPlayConfig(vertices=7, k=4, learning_rate="cosine:0.1:0")
    assert config_from_dict(config.as_dict()) == config
    assert config_from_dict(PPOConfig().as_dict()) == PPOConfig()
    with pytest.raises(ConfigError, match="unknown setting 'vertexes'"):
        config_from_dict({**config.as_dict(), "vertexes": 3})
    config = R2D2Config()
    stored = {**config.as_dict(), "clip_coef": 0.3, "teacher": "nobody"}
    assert config_from_dict(stored) == config


@pytest.mark.parametrize("config", [PPOConfig(), SelfPlayConfig()])
def test_every_config_says_where_a_run_ends(config):
    assert config.batch > 0
    assert config.goal > 0
    lasting = config.lasting(3)
    assert dataclasses.replace(lasting, **{n: getattr(config, n) for n in ENDS[type(config)]}) == (
        config
    )


ENDS = {
    PPOConfig: ("total_timesteps", "eval_episodes"),
    SelfPlayConfig: ("num_games", "league_games"),
}


def test_a_run_of_some_updates_has_enough_games():
    """Eight games of 4 moves: with the triangle of 5 moves, a game ends every fifth move."""
    config = SelfPlayConfig(
        vertices=4, opening=0, game_batch_size=8, moves_per_update=4, training_batch_size=8
    )
    assert config.lasting(10).num_games == 10 * 7
    assert dataclasses.replace(config, opening=2).lasting(10).num_games == 10 * 11
    assert config.lasting(10).league_games == 0


def test_a_file_has_no_preset_and_no_field_of_another_config(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("vertices = 5\n")
    assert read_settings(file, command="selfplay") == {"vertices": 5}
    for line in ('preset = "cpu"', "num_envs = 3"):
        file.write_text(line)
        with pytest.raises(ConfigError, match="unknown setting"):
            read_settings(file, command="selfplay")
