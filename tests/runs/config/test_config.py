import contextlib
import json
import re
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from hackmatrix_rl.agent.networks import NETWORKS
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.runs import _compose as compose_module
from hackmatrix_rl.runs.config import _policies as policies
from hackmatrix_rl.runs.config import (
    config_from_dict,
    default_algorithm,
    field_types,
    make_config,
    options_of,
    preset_for,
    preset_names,
    read_settings,
)
from hackmatrix_rl.system.errors import ConfigError, flag

pytestmark = pytest.mark.smoke


def test_a_config_is_hashable_and_takes_whole_numbers_where_a_number_is_wanted():
    assert hash(PPOConfig()) == hash(PPOConfig())
    assert isinstance(PPOConfig(gamma=1).gamma, float)
    config = PPOConfig(num_envs=10, num_steps=10, num_minibatches=2, total_timesteps=250)
    assert config.num_updates == 3, "they reach the total"
    config = PPOConfig(num_envs=10, num_steps=10, num_minibatches=2, total_timesteps=1e4)
    assert config.total_timesteps == 10_000
    assert isinstance(config.total_timesteps, int), "TOML has 1e4 as a number with a fraction"
    for number in (2.5, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match=r"--total-timesteps .*: must be a whole number"):
            PPOConfig(total_timesteps=number)


WHOLE = [each for each in options_of(PPOConfig) if field_types(each)[0] is int]


@pytest.mark.parametrize("name", [each.name for each in WHOLE])
@pytest.mark.parametrize("number", [2**63, 10**30, 10**5000], ids=["2^63", "10^30", "10^5000"])
def test_every_whole_number_has_a_largest(name, number):
    with pytest.raises(ConfigError, match=rf"^{flag(name)} .* is too large. Use \d+ or less"):
        PPOConfig(**{name: number})


@pytest.mark.parametrize("name", [each.name for each in WHOLE])
def test_the_largest_of_each_is_answered_at_once(name):
    """By a config or by a line; on the way to either, nothing is counted through."""
    with pytest.raises(ConfigError) as error:
        PPOConfig(**{name: 2**63})
    largest = int(re.search(r"Use (\d+)", str(error.value))[1])
    for others in ({}, {"num_minibatches": 2, "num_steps": 1, "num_envs": 2**31 - 1}):
        with contextlib.suppress(ConfigError):
            assert getattr(PPOConfig(**{**others, name: largest}), name) == largest


def test_what_a_large_machine_can_take_is_allowed():
    PPOConfig(num_envs=2**25, num_steps=32, minibatch_size=2**20, width=8192, depth=100)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a" * 5000, "it has 5000 characters; at most"),
        ("a" * 256, "a part of it has more than 255 characters"),
        ("runs/a\nb", "a line break or another control character is in it"),
        ("a\0b", "a line break or another control character is in it"),
        ("a\ud800b", "must be text in UTF-8"),
    ],
    ids=["long", "long part", "line break", "NUL", "surrogate"],
)
@pytest.mark.parametrize("name", ["run_dir", "checkpoint_dir"])
def test_names_that_no_folder_can_have_are_refused(name, path, words):
    with pytest.raises(ConfigError) as error:
        PPOConfig(**{name: path})
    assert str(error.value).startswith(f"{flag(name)} ")
    assert words in str(error.value)
    assert len(str(error.value)) < 300
    PPOConfig(**{name: "/".join(["a" * 255] * 13)})


def test_a_network_that_cannot_fit_is_refused_before_it_is_made(monkeypatch):
    made = []
    monkeypatch.setattr(policies, "available_memory", lambda: (10_000, "free RAM"))
    monkeypatch.setitem(NETWORKS, "mlp", lambda *_, **sizes: made.append(sizes))
    monkeypatch.setattr(policies.eqx, "filter_eval_shape", lambda *_, **__: jnp.zeros(1000))
    config = PPOConfig(network="mlp", width=4, depth=7)
    said = "--network mlp --width 4 --depth 7 needs 12 KiB for itself alone"
    with pytest.raises(ConfigError, match=said):
        config.policy(key=jax.random.key(0), copies=3)
    assert made == []


@pytest.mark.parametrize(("changes", "copies"), [({}, 3), ({"mesh": "data=1,fsdp=2"}, 1)])
def test_the_optimizer_counts_where_it_lies_beside_the_network(changes, copies, monkeypatch):
    given = []

    def build(*_, copies, **__):
        given.append(copies)
        raise ConfigError("enough")

    monkeypatch.setattr(PPOConfig, "policy", build)
    with pytest.raises(ConfigError, match="enough"):
        compose_module.compose(PPOConfig(**changes), key=jax.random.key(0))
    assert given == [copies]


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "f16"},
        {"precision": "params=float32,compute=float16,output=float32"},
        {"precision": "bf16", "precision_parts": ".heads*=f16"},
    ],
)
def test_float16_is_refused_on_a_tpu_and_nowhere_else(settings, monkeypatch):
    with pytest.raises(ConfigError, match=r"f16, which no TPU supports. Use --precision bf16"):
        PPOConfig(device="tpu", **settings)
    for device in ("auto", "cpu", "gpu"):
        PPOConfig(device=device, **settings)
    # Where the device was not named, it is known when the modules are put together.
    tpu = types.SimpleNamespace(platform="tpu")
    monkeypatch.setattr(compose_module, "chosen_devices", lambda: [tpu])
    config = PPOConfig(network="mlp", width=4, **settings)
    with pytest.raises(ConfigError, match="no TPU supports"):
        compose_module.compose(config, key=jax.random.key(0))


def test_parts_of_the_network_are_computed_as_the_config_says():
    config = PPOConfig(
        network="mlp", width=4, precision="bf16", precision_parts=".heads.value*=f32"
    )
    trainer = compose_module.compose(config, key=jax.random.key(0))
    cast = trainer.algorithm.precision.cast_to_compute(trainer.policy)
    assert cast.heads.value.weight.dtype == "float32"
    assert cast.heads.policy.weight.dtype == "bfloat16"


def test_minibatches_grow_in_number_with_the_batch():
    counts = [
        PPOConfig(num_envs=num_envs, num_steps=32, minibatch_size=4096).minibatches
        for num_envs in (256, 1024, 4096)
    ]
    assert counts == [2, 8, 32]
    assert PPOConfig().minibatches == 8
    assert PPOConfig(num_minibatches=4).minibatches == 4
    # A size goes before what a preset says.
    assert make_config("debug", {"minibatch_size": 64}).minibatches == 4


@pytest.mark.parametrize(
    ("preset", "algorithm", "why"),
    [
        ("cpu", "imitation", "the default"),
        ("gpu", "imitation", "the default"),
        ("debug", "ppo", "--preset debug"),
        ("max", "r2d2", "--preset max"),
    ],
)
def test_training_imitates_unless_the_preset_is_of_another(preset, algorithm, why):
    found, reason = default_algorithm(preset)
    assert found == algorithm
    assert why in reason
    assert make_config(preset, {}).algorithm == algorithm


def test_no_setting_chooses_the_algorithm():
    said = r"by --algorithm imitation \(the default.* Use --algorithm ppo, or leave it out"
    with pytest.raises(ConfigError, match=said):
        make_config("cpu", {"ent_coef": 0.01})


def test_imitation_on_a_cpu_has_settings_of_its_own():
    config = make_config("cpu", {"algorithm": "imitation"})
    assert (config.teacher, config.observation, config.width) == ("expert", "tactical", 192)
    assert make_config("cpu", {"algorithm": "imitation", "network": "conv"}).width is None
    assert make_config("cpu", {"algorithm": "imitation", "update_epochs": 1}).update_epochs == 1
    assert make_config("cpu", {}) == config


def test_ppo_from_another_training_on_a_cpu_has_settings_of_its_own():
    config = make_config("cpu", {"algorithm": "ppo", "init": "runs/some"})
    assert (config.total_timesteps, config.critic_warmup_timesteps) == (24_000_000, 200_000)
    assert config.aux_victory
    assert config.update_epochs == 1
    assert make_config("gpu", {"algorithm": "ppo", "init": "runs/some"}).update_epochs == 2
    assert config.teacher_kl == "linear:0.2:0.0@0.3"
    other = make_config("cpu", {"algorithm": "ppo", "init": "runs/some", "network": "gru"})
    assert other.teacher_kl == 0  # its memory would be refused
    assert (config.reward_config.score_gain, config.reward_config.kills) == (10, 0)
    begun = {"algorithm": "ppo", "init": "runs/some", "total_timesteps": 1000}
    short = make_config("cpu", {**begun, "reward": "kills=2", "aux_coefficient": 0})
    assert short.critic_warmup_timesteps == 50
    assert (short.reward_config.score_gain, short.reward_config.kills) == (1, 2)
    assert (short.aux_victory, short.aux_every) == (False, 1)
    assert make_config("cpu", {"algorithm": "ppo"}).gamma == 0.99
    teaches = {"init": "runs/some", "algorithm": "imitation"}
    assert make_config("cpu", teaches).total_timesteps == 3_000_000


def test_where_nobody_plays_against_a_network_it_has_no_opponent():
    with pytest.raises(ConfigError, match=r"--algorithm ppo: .* no player of a game of two"):
        make_config("cpu", {"algorithm": "ppo"}).opponent(None)


@pytest.mark.parametrize("preset", ["gpu", "tpu"])
def test_on_an_accelerator_both_have_the_same_settings_and_more_steps(preset):
    taught = make_config(preset, {"algorithm": "imitation"})
    assert (taught.teacher, taught.observation, taught.width) == ("expert", "tactical", 192)
    assert (taught.total_timesteps, taught.num_envs) == (24_000_000, 4096)
    # As docs/scaling.md starts it on eight devices.
    assert make_config(preset, {"algorithm": "imitation", "num_envs": 32768}).num_updates == 23
    gone_on = make_config(preset, {"algorithm": "ppo", "init": "runs/some"})
    assert (gone_on.total_timesteps, gone_on.critic_warmup_timesteps) == (200_000_000, 200_000)
    assert gone_on.reward_config.score_gain == 10


@pytest.mark.parametrize("name", [name for name in preset_names() if name != "auto"])
def test_a_preset_is_valid_and_can_be_changed(name):
    assert make_config(name, {"seed": 7}).seed == 7


def test_each_backend_has_a_preset():
    assert [preset_for(each) for each in ("cpu", "gpu", "cuda", "tpu")] == [
        *("cpu", "gpu", "gpu", "tpu")
    ]


def test_a_file_may_order_settings_into_tables(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(
        'preset = "debug"\nnum-envs = 64\n[learning]\nlearning_rate = 1e-3\ntarget_kl = "none"\n'
    )
    learning = {"learning_rate": 1e-3, "target_kl": None}
    settings = {"preset": "debug", "num_envs": 64, **learning}
    assert read_settings(file) == settings
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())  # as Notepad saves it
    assert read_settings(file) == settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("num_env = 3", r"unknown setting 'num_env'\. Did you mean num_envs\?"),
        ("num_envs = 3\n[a]\nnum-envs = 4", "'num-envs' is set twice"),
        ("num_envs = ", "not valid TOML"),
        ("preset = 32", r"preset 32: must be text, such as 'cpu'\."),
        ("preset = ['cpu']", "preset .'cpu'.: must be text"),
        ("a = " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
        ("a = " + "{a=" * 10_000 + "1" + "}" * 10_000, "nested too deeply"),
        (".".join("a" * 20_000) + " = 1", "nested too deeply"),
        (".".join("a" * 900) + " = 1", "unknown setting 'a'"),
        ("seed = " + "9" * 5000, "not valid TOML"),
        ("x" * 5000 + " = 1", r"unknown setting 'x{50,60}\.\.\.\."),
        ("#" * 100_000, "larger than 65,536 bytes"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path, content, message):
    file = tmp_path / "my.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_settings(file)


def test_what_is_no_file_of_settings_is_named(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'run_dir = "\xff"')
    (tmp_path / "utf-16.toml").write_text("num_envs = 3", encoding="utf-16")
    for path, words in {
        tmp_path / "latin.toml": "is not text in UTF-8. Save it as UTF-8",
        tmp_path / "utf-16.toml": "is not text in UTF-8. Save it as UTF-8",
        tmp_path: "Is a directory",
        Path("/dev/zero"): "is a device",
        Path("a" * 5000): "it has 5000 characters",
        Path("a\0b"): "control character",
    }.items():
        with pytest.raises(ConfigError, match=words) as error:
            read_settings(path)
        assert str(error.value).startswith("--config ")


def test_a_config_survives_being_written_down_and_every_setting_a_file(tmp_path):
    config = make_config("debug", {"target_kl": 0.02})
    assert config_from_dict(config.as_dict()) == config
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        config_from_dict({"colour": 1})
    config = make_config("debug", {})
    values = {name: "none" if value is None else value for name, value in config.as_dict().items()}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    (tmp_path / "all.toml").write_text("\n".join(lines))
    assert config_from_dict(read_settings(tmp_path / "all.toml")) == config


# What no flag of the command line can give; for the rest see tests/cli/test_bad_values.py.
REFUSED = [
    ({"num_envs": 4.5}, "--num-envs 4.5: must be a whole number."),
    ({"num_envs": True}, "--num-envs True: must be a whole number."),
    ({"gamma": 10**400}, "--gamma a number of 1329 bits: must be a finite number."),
    ({"learning_rate": float("nan")}, "--learning-rate nan: must be a finite number."),
    (
        {"learning_rate": "linear:1e-3:1e-4", "learning_rate_schedule": "constant"},
        "is a schedule already. Leave --learning-rate-schedule out.",
    ),
    ({"learning_rate": "linear:0:0"}, "--learning-rate linear:0.0:0.0 is too small."),
    ({"learning_rate_schedule": "cosine"}, "--learning-rate-schedule cosine: unknown."),
    ({"target_kl": "much"}, "--target-kl 'much': must be a number or none."),
    ({"seed": list(range(1000))}, "[0, 1, 2, 3"),
]


@pytest.mark.parametrize(("settings", "said"), REFUSED, ids=[str(row[0])[:60] for row in REFUSED])
def test_settings_that_cannot_work_are_named_with_what_would(settings, said):
    with pytest.raises(ConfigError) as error:
        PPOConfig(**settings)
    for part in said.split(" ... "):
        assert part in str(error.value)


@pytest.mark.parametrize(("num_envs", "num_minibatches"), [(100, 5), (100, 10), (96, 8)])
def test_the_minibatches_that_a_refusal_names_divide(num_envs, num_minibatches):
    PPOConfig(num_envs=num_envs, num_minibatches=num_minibatches)
