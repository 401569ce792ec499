"""Schedules as text, in flags and files."""

import pytest

from hackmatrix_rl.agent import Cosine, Linear
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.cli._settings import Value
from hackmatrix_rl.config import schedule_of
from hackmatrix_rl.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "stored", "built"),
    [
        ("0.5", 0.5, 0.5),
        ("linear:0.997:0.9995", "linear:0.997:0.9995", Linear(0.997, 0.9995, 1000)),
        ("linear:.5:0@0.3", "linear:0.5:0.0@0.3", Linear(0.5, 0.0, 300)),
        ("cosine:0.5:0@1", "cosine:0.5:0.0", Cosine(0.5, 0.0, 1000)),
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
    "text",
    ["", "much", "linear", "linear:1", "linear:1:2:3", "step:1:0", "linear:1:0@2", "linear:1:0@"],
)
def test_another_text_is_refused_with_one_that_works(text):
    with pytest.raises(ConfigError, match=r"^--gamma .*must be a number, or a schedule such as"):
        PPOConfig(gamma=text)
