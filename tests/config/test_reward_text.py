"""`--reward`: text to weights, and back to one canonical text."""

import pytest

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.config import config_from_dict
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.game import RewardConfig


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
def test_the_text_is_stored_in_one_form_and_says_the_same_again(text, canonical):
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
def test_what_cannot_work_is_refused_in_one_short_line(text, said):
    with pytest.raises(ConfigError) as caught:
        PPOConfig(reward=text)
    assert said in str(caught.value)
    assert str(caught.value).startswith("--reward ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
