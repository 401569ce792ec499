import dataclasses
import re

import click
import pytest
from click.testing import CliRunner

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
    assert "r2d2: Q-learning. [default: imitation, unless the preset or a flag that" in words


@pytest.mark.parametrize(
    ("command", "own", "heading"),
    [
        ("bench", ["--compare", "--full", "--sizes", "--repeats", "--preset"], "Game, Devices"),
        ("verify-resume", ["--updates", "--device", "--deterministic", "--preset"], "Watching"),
    ],
)
def test_a_command_that_takes_settings_shows_its_own_flags_and_where_the_rest_is(
    command, own, heading
):
    result = invoke(command, "--help")
    words = " ".join(result.output.split())
    for name in own:
        assert f" {name} " in words
    assert "`hackmatrix-rl train --help` lists them, under" in words
    assert heading in words
    assert "--gamma" not in words
    assert len(result.output.splitlines()) < 60
    refused = invoke(command, "--gamma", "2", "--preset", "debug")
    assert "--gamma 2.0 is too large" in refused.stderr, "it takes them all the same"


@pytest.mark.parametrize("command", ["bench", "verify-resume"])
def test_the_help_points_to_headings_that_there_are(command):
    headings = [
        line[:-1] for line in invoke("train", "--help").output.splitlines() if line[-1:] == ":"
    ]
    words = " ".join(invoke(command, "--help").output.split())
    named = words.rpartition(" under ")[2].rstrip(".").replace(" and ", ", ").split(", ")
    assert len(named) > 3
    assert set(named) <= set(headings)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ev"], ["eval"]),
        (["train", "--value-h"], ["--value-head"]),
        (["train", "--value-head", "h"], ["hl-gauss"]),
        (
            ["train", "--preset", ""],
            ["auto", "cpu", "gpu", "tpu", "debug", "fast", "max", "quality"],
        ),
    ],
)
def test_shells_complete_commands_flags_and_values(shell, words, expected):
    variable, typed = "_HACKMATRIX_RL_COMPLETE", words[-1]
    given = {variable: f"{shell}_complete", "COMP_WORDS": " ".join(["hackmatrix-rl", *words])}
    given["COMP_CWORD"] = typed if shell == "fish" else str(len(words))
    result = CliRunner().invoke(main, env=given, prog_name="hackmatrix-rl")
    assert result.exit_code == 0
    # One line a name (`plain,NAME`) or several (`plain`, NAME, help): shells and versions differ.
    told = re.findall(r"^plain[,\n]([^\t\n]+)", result.stdout, re.MULTILINE)
    assert [name for name in told if name.startswith(typed)] == expected
