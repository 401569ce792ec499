"""Settings of Q-learning and of self-play: what goes together, and what presets say."""

import dataclasses

import pytest

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.algorithms.r2d2 import R2D2Config
from hackmatrix_rl.algorithms.self_play import SelfPlayConfig
from hackmatrix_rl.algorithms.supervised import SupervisedConfig
from hackmatrix_rl.runs.config import (
    RunConfig,
    config_from_dict,
    default_algorithm,
    make_config,
    read_settings,
)
from hackmatrix_rl.system.errors import ConfigError


@pytest.mark.parametrize(
    ("preset", "batch", "train_freq"), [("fast", 64, 4), ("max", 128, 8), ("quality", 32, 1)]
)
def test_presets_name_the_algorithm_and_its_sizes(preset, batch, train_freq):
    assert default_algorithm(preset)[0] == "r2d2"
    config = make_config(preset, {"algorithm": "r2d2"})
    assert config.algorithm == "r2d2"
    assert (config.sequence_batch_size, config.train_freq) == (batch, train_freq)
    assert config == make_config(preset, {})
    assert config.network == "gru"
    assert config.batch == config.num_envs * train_freq


@pytest.mark.parametrize(
    ("kind", "name", "kept"),
    [
        (SelfPlayConfig, "width", {"default": 64}),
        (SelfPlayConfig, "cpu_devices", {"default": 2}),
        (SupervisedConfig, "max_grad_norm", {"default": 1.0}),
        (SupervisedConfig, "remat", {"help": ..., "choices": ("none", "blocks")}),
    ],
)
def test_a_setting_that_an_algorithm_changes_is_otherwise_that_of_every_run(kind, name, kept):
    changed, every = (each.__dataclass_fields__[name] for each in (kind, RunConfig))
    found = {"default": changed.default, **changed.metadata}
    differ = {each: found[each] for each in every.metadata if found[each] != every.metadata[each]}
    if changed.default != every.default:
        differ["default"] = changed.default
    assert differ.keys() == kept.keys()
    assert all(kept[each] in (..., differ[each]) for each in kept)


@pytest.mark.parametrize("preset", ["cpu", "gpu", "tpu", "debug"])
def test_every_preset_for_a_device_trains_by_it(preset):
    config = make_config(preset, {"algorithm": "r2d2"})
    assert config.sizes().length > 0
    assert config.network == "gru"


def test_an_own_network_has_its_own_width_and_a_run_lasts_some_updates():
    assert make_config("cpu", {"algorithm": "r2d2", "network": "lstm"}).width is None
    assert make_config("cpu", {"algorithm": "r2d2"}).width == 64
    config = make_config("debug", {"algorithm": "r2d2"}).shorten(7)
    assert config.num_updates == 7
    assert config.goal == 7 * config.num_envs * config.train_freq


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
    lasting = config.shorten(3)
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
    assert config.shorten(10).num_games == 10 * 7
    assert dataclasses.replace(config, opening=2).shorten(10).num_games == 10 * 11
    assert config.shorten(10).league_games == 0


def test_a_file_has_no_preset_and_no_field_of_another_config(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("vertices = 5\n")
    assert read_settings(file, command="selfplay") == {"vertices": 5}
    for line in ('preset = "cpu"', "num_envs = 3"):
        file.write_text(line)
        with pytest.raises(ConfigError, match="unknown setting"):
            read_settings(file, command="selfplay")
