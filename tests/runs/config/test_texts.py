"""Rewards and schedules as text, in flags and files."""

import jax.numpy as jnp
import pytest

from hackmatrix_rl.agent import Constant, Cosine, Linear, Piecewise
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.cli._settings import Value
from hackmatrix_rl.games.hackmatrix import RewardConfig
from hackmatrix_rl.runs.config import config_from_dict, schedule_of, with_rate_text
from hackmatrix_rl.system.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (None, None),
        ("", None),
        ("victory=1", None),
        ("victory=0.1,score_gain=0", "score_gain=0,victory=0.1"),
        (" victory = 1e-1 , score_gain=0.0,kills=1", "score_gain=0,victory=0.1"),
        ("kills=-2.5", "kills=-2.5"),
        ("kills=100000", "kills=100000"),
    ],
)
def test_a_reward_is_stored_in_one_form_and_says_the_same_again(text, canonical):
    config = PPOConfig(reward=text)
    assert config.reward == canonical
    again = config_from_dict(config.as_dict())
    assert again == config
    # Terms that are not named weigh one.
    pairs = [pair.split("=") for pair in (canonical or "").split(",") if pair]
    weights = {name: float(weight) for name, weight in pairs}
    assert again.reward_config == config.reward_config == RewardConfig(**weights)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("victroy=1", "--reward victroy=1: unknown term victroy. Did you mean victory?"),
        ("zzz=1", "Use some of step_penalty, stage_completion,"),
        ("victory", "--reward victory: must be a term and its weight"),
        ("=1", "--reward =1: must be a term and its weight"),
        ("victory=1,", "must be a term and its weight"),
        ("victory=much", "the weight of victory must be a number, such as victory=0.5"),
        ("victory=nan", "victory must be a number from -1000000 to 1000000, not nan"),
        ("victory=1e7", "victory must be a number from -1000000 to 1000000"),
        ("kills=1,kills=2", "kills has a weight already"),
        ("x" * 100_000 + "=1", "--reward xxx"),
    ],
    ids=lambda text: text[:20],
)
def test_a_reward_that_cannot_work_is_refused_in_one_short_line(text, said):
    with pytest.raises(ConfigError) as caught:
        PPOConfig(reward=text)
    assert said in str(caught.value)
    assert str(caught.value).startswith("--reward ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "stored", "built"),
    [
        ("0.5", 0.5, 0.5),
        ("linear:0.997:0.9995", "linear:0.997:0.9995", Linear(0.997, 0.9995, 1000)),
        ("linear:.5:0@0.3", "linear:0.5:0.0@0.3", Linear(0.5, 0.0, 300)),
        ("cosine:0.5:0@1", "cosine:0.5:0.0", Cosine(0.5, 0.0, 1000)),
        ("constant:.5", "constant:0.5", Constant(0.5)),
        (
            "piecewise:.5:.25@0.1:1@.5",
            "piecewise:0.5:0.25@0.1:1.0@0.5",
            Piecewise((0.5, 0.25, 1.0), (100, 500)),
        ),
    ],
)
def test_a_text_is_a_number_or_a_schedule(text, stored, built):
    config = PPOConfig(gamma=text)
    assert config.gamma == stored
    assert schedule_of(config.gamma, steps=1000) == built
    assert PPOConfig(gamma=config.gamma) == config
    assert Value(PPOConfig.__dataclass_fields__["gamma"]).convert(text, None, None) in (
        text,
        stored,
    )


@pytest.mark.parametrize(
    ("given", "stored", "halfway"),
    [
        ({}, "linear:0.001:0.0", 0.0005),
        ({"learning_rate": 0.01}, "linear:0.01:0.0", 0.005),
        ({"learning_rate": "constant:0.01"}, "constant:0.01", 0.01),
        ({"learning_rate": "cosine:0.01:0.002"}, "cosine:0.01:0.002", 0.006),
        ({"learning_rate_schedule": "linear"}, "linear:0.001:0.0", 0.0005),
        ({"learning_rate_schedule": "constant"}, "constant:0.001", 0.001),
        ({"learning_rate_schedule": "constant", "learning_rate": 0.01}, "constant:0.01", 0.01),
        (
            {"learning_rate_schedule": "linear", "learning_rate": "linear:1:.5"},
            "linear:1.0:0.5",
            0.75,
        ),
    ],
)
def test_a_learning_rate_is_one_text_whatever_says_it(given, stored, halfway):
    """Also in the stored settings of a run, now and of the versions with two settings."""
    config = PPOConfig(**given)
    assert "learning_rate_schedule" not in config.as_dict()
    assert config.learning_rate == config.as_dict()["learning_rate"] == stored
    for settings in (config.as_dict(), {**PPOConfig().as_dict(), "learning_rate": 0.001, **given}):
        assert config_from_dict(settings) == config
    assert config.rate()(jnp.float32(config.steps_taken / 2)) == pytest.approx(halfway)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, None),
        ({"tracker": "trackio, wandb,wandb,"}, "wandb,trackio"),
        ({"wandb": True, "tensorboard": False}, "wandb"),
        ({"tracker": "tensorboard", "wandb": True}, "wandb,tensorboard"),
        ({"tracker": "wandb,trackio", "wandb": False}, "trackio"),
    ],
)
def test_trackers_are_one_text_whatever_says_it(given, stored):
    """Also in the stored settings of versions with one setting for each."""
    config = PPOConfig(**given)
    assert config.as_dict()["tracker"] == stored
    assert config.trackers == tuple((stored or "").split(",")) * bool(stored)
    assert not {"wandb", "tensorboard"} & config.as_dict().keys()
    assert config_from_dict({"algorithm": "ppo", **given}) == config


@pytest.mark.parametrize(
    ("rate", "schedule", "said"),
    [
        (0.001, "linear", "linear:0.001:0.0"),
        ("0.001", "constant", "constant:0.001"),  # a study keeps texts
        ("linear:0.1:0.01", "linear", "linear:0.1:0.01"),
    ],
)
def test_what_is_shown_of_stored_settings_has_one_text_too(rate, schedule, said):
    before = {"learning_rate": rate, "learning_rate_schedule": schedule, "seed": 1}
    assert with_rate_text(before) == {"learning_rate": said, "seed": 1}


@pytest.mark.parametrize("rate", ["x", None, [1], "cosine:1:0", 10**400])
def test_stored_settings_that_cannot_be_read_stay_as_they_are(rate):
    before = {"learning_rate": rate, "learning_rate_schedule": "constant"}
    assert with_rate_text(before) == before


def test_the_rates_of_several_trainings_are_read_so_too():
    varied = PPOConfig(vary="learning_rate=1e-3,3e-3", learning_rate_schedule="constant")
    assert varied.vary == "learning_rate=constant:0.001,constant:0.003"
    assert [each.learning_rate for each in varied.member_configs()] == varied.vary[14:].split(",")
    falling = PPOConfig(vary="learning_rate=1e-3,constant:3e-3", learning_rate_schedule="linear")
    rates = [each.learning_rate for each in falling.member_configs()]
    assert rates == ["linear:0.001:0.0", "constant:0.003"]
    assert falling.member_tags()[0] == ["seed=0", "learning_rate=0.001"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "much",
        "constant",
        "constant:x",
        "linear",
        "linear:1",
        "linear:1:2:3",
        "step:1:0",
        "linear:1:0@2",
        "linear:1:0@",
    ],
)
def test_another_schedule_is_refused_with_one_that_works(text):
    with pytest.raises(ConfigError, match=r"^--gamma .*must be a number, or a schedule such as"):
        PPOConfig(gamma=text)


@pytest.mark.parametrize(
    "text",
    ["", ":1", ":1:2", ":1:2@0", ":1:2@1", ":1:2@0.5:3@0.5", ":1:2@0.5:3@0.2", ":x:2@0.5", ":1:2@"],
)
def test_another_piecewise_schedule_is_refused_with_one_that_works(text):
    with pytest.raises(ConfigError, match=r"^--gamma .*piecewise:0.001:0.0005@0.25"):
        PPOConfig(gamma=f"piecewise{text}")


def test_every_number_of_a_piecewise_schedule_is_in_the_range():
    with pytest.raises(ConfigError, match=r"--gamma 2.0 is too large"):
        PPOConfig(gamma="piecewise:0.9:2@0.5:0.9@0.7")


def test_a_piecewise_schedule_has_each_number_from_its_step_on():
    schedule = Piecewise((3.0, 1.0, 2.0), (10, 20))
    steps = [0, 9, 10, 19, 20, 99]
    assert [float(schedule(jnp.float32(step))) for step in steps] == [3, 3, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="3 numbers needs 2 steps in rising order"):
        Piecewise((3.0, 1.0, 2.0), (20, 10))
