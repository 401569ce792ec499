"""Settings of sequence-replay Q-learning: what goes together, and what the presets say."""

import pytest

from hackmatrix_rl.config import default_algorithm, make_config
from hackmatrix_rl.errors import ConfigError


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


@pytest.mark.parametrize("preset", ["cpu", "gpu", "tpu", "debug"])
def test_every_preset_for_a_device_trains_by_it(preset):
    config = make_config(preset, {"algorithm": "r2d2"})
    assert config.sizes().length > 0
    assert config.network == "gru"


def test_an_own_network_has_its_own_width_and_a_run_lasts_some_updates():
    assert make_config("cpu", {"algorithm": "r2d2", "network": "lstm"}).width is None
    assert make_config("cpu", {"algorithm": "r2d2"}).width == 64
    config = make_config("debug", {"algorithm": "r2d2"}).lasting(7)
    assert config.num_updates == 7
    assert config.goal == 7 * config.num_envs * config.train_freq


WRONG = {
    "preset of another": ("max", {"algorithm": "ppo"}, "--preset max: of --algorithm r2d2"),
    "its setting elsewhere": ("cpu", {"burn_in": 3}, "--burn-in 3: a setting of"),
    "its switch elsewhere": ("cpu", {"dueling": False}, "--no-dueling: a setting of"),
    "ppo's setting here": ("fast", {"ent_coef": 0.3}, "--ent-coef 0.3: a setting of"),
    "a teacher": ("fast", {"teacher": "expert"}, "--teacher expert: a setting of"),
    "minibatches": ("fast", {"num_minibatches": 4}, "--num-minibatches 4: a setting of"),
    "too long a sequence": ("fast", {"sequence_length": 9000}, "--buffer-size 576512 or more"),
    "an odd batch": ("fast", {"sequence_batch_size": 63}, "use --sequence-batch-size 32."),
    "a schedule of gamma": ("fast", {"gamma": "linear:0.9:0.99"}, "--gamma linear:0.9:0.99: "),
    "units": ("fast", {"value_scale": "compressed"}, "--value-scale compressed: a setting of"),
    "no rate": ("fast", {"learning_rate": 0.0}, "--learning-rate 0.0 is too small"),
    "no learning": ("fast", {"total_timesteps": 10_000}, "--learning-starts 10000 leaves nothing"),
    "too much to count": ("fast", {"num_envs": 2**29}, "x --train-freq 4 are 2147483648 actions"),
    "epsilon": ("fast", {"epsilon": 0.0}, "--epsilon 0.0 is too small. Use more than 0."),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_work_is_refused_by_name(wrong):
    preset, settings, said = WRONG[wrong]
    with pytest.raises(ConfigError) as refused:
        make_config(preset, settings)
    assert said in str(refused.value)
