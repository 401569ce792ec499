"""Which trainings take about as long to compile."""

import dataclasses

import pytest

from hackmatrix_rl.config import make_config
from hackmatrix_rl.runs import make_mesh
from hackmatrix_rl.runs._compile_kind import train_kind

CONFIG = make_config("debug", {})


def kind(**changes):
    config = dataclasses.replace(CONFIG, **changes)
    return train_kind(config, make_mesh(config))


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "gru"},
        {"num_envs": 32},
        {"num_steps": 8},
        {"precision": "bf16"},
        {"mesh": "data=2"},
    ],
    ids=str,
)
def test_what_changes_the_program_is_a_kind_of_its_own(changes):
    assert kind(**changes) != kind()


def test_what_does_not_change_it_is_not():
    assert kind(seed=7, learning_rate=0.1) == kind()
