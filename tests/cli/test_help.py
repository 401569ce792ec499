import dataclasses

import click
import pytest

from hackmatrix_rl.cli import main
from hackmatrix_rl.config import (
    TrainConfig,
)
from hackmatrix_rl.errors import (
    flag,
)

from .commands import invoke

COMMANDS = main.list_commands(click.Context(main))


def test_without_a_command_there_is_help():
    result = invoke()
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"\n  hackmatrix-rl {command} " in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_every_field_of_the_config_is_an_option_with_its_explanation():
    words = " ".join(invoke("train", "--help").output.split())
    for each in dataclasses.fields(TrainConfig):
        assert flag(each.name) in words
        assert each.metadata["help"] in words


def test_help_tells_what_presets_change():
    words = " ".join(invoke("train", "--help").output.split())
    assert "[default: f32; gpu, tpu: bf16]" in words
