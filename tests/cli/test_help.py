import re

import click
import pytest
from click.testing import CliRunner

from hackmatrix_rl.cli import main
from hackmatrix_rl.runs.config import TrainConfig, algorithms, algorithms_of, options_of
from hackmatrix_rl.system.errors import flag

from .commands import done, invoke

pytestmark = pytest.mark.smoke

COMMANDS = main.list_commands(click.Context(main))


def test_without_a_command_there_is_help():
    result = done()
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", result.output, re.MULTILINE)
    assert "HACKMATRIX_RL_FLAGS" not in result.output, "it serves the tests of the pages alone"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command):
    result = done(command, "--help")
    assert "Usage: " in result.output


@pytest.mark.parametrize("name", algorithms_of("train"))
def test_every_field_of_an_algorithm_is_an_option_with_its_explanation(name):
    words = "".join(invoke("train", "--algorithm", name, "--help-all").output.split())
    for each in options_of(algorithms()[name]):
        assert flag(each.name) in words
        assert "".join(each.metadata["help"].split()) in words


@pytest.mark.parametrize("name", algorithms_of("train"))
@pytest.mark.parametrize("asked", ["--help", "--help-all"])
def test_the_help_for_an_algorithm_shows_its_flags_and_no_others(name, asked):
    """`--teacher` is among the first flags of all, and none of another algorithm."""
    output = invoke("train", "--algorithm", name, asked).output
    shown = set(re.findall(r"^  (--[a-z0-9-]+)", output, re.MULTILINE))
    flags = {
        each: {flag(field.name) for field in options_of(kind)}
        for each, kind in algorithms_of("train").items()
    }
    players = [
        flags[each]
        for each, kind in algorithms_of("train").items()
        if issubclass(kind, TrainConfig)
    ]
    own, every, common = flags[name], set.union(*flags.values()), set.intersection(*players)
    assert own - common <= shown
    assert not (every - own) & shown
    if asked == "--help-all":
        assert own <= shown


def test_the_first_help_is_short_and_the_learning_rate_comes_early():
    lines = invoke("train", "--help").output.splitlines()
    flags = [line for line in lines if re.match(r"  (-h, )?--", line)]
    assert len(flags) < 26
    place = next(n for n, line in enumerate(flags) if line.startswith("  --learning-rate "))
    assert place < 12


def test_help_tells_what_presets_change():
    words = " ".join(invoke("train", "--help").output.split())
    assert "[default: f32; gpu, tpu: bf16]" in words
    assert "[default: imitation; in another --env: ppo]" in words
    assert "[default: 3_000_000; gpu" not in words
    assert "cpu: 3_000_000" in words
    continued = " ".join(invoke("train", "--algorithm", "ppo", "--help").output.split())
    assert "--init: linear:0.0007:0" in continued


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
    assert "`hackmatrix-rl train --help-all` lists them, under" in words
    assert heading in words
    assert "--gamma" not in words
    assert len(result.output.splitlines()) < 60
    refused = invoke(command, "--gamma", "2", "--preset", "debug")
    assert "--gamma 2.0 is too large" in refused.stderr, "it takes them all the same"


@pytest.mark.parametrize("command", ["bench", "verify-resume"])
def test_the_help_points_to_headings_that_there_are(command):
    headings = {
        line[:-1]
        for name in algorithms_of("train")
        for line in invoke("train", "--algorithm", name, "--help-all").output.splitlines()
        if line[-1:] == ":"
    }
    words = " ".join(invoke(command, "--help").output.split())
    named = words.rpartition(" under ")[2].rstrip(".").split(", ")
    assert len(named) > 3
    assert set(named) <= headings


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ev"], ["eval"]),
        (["train", "--value-h"], ["--value-head"]),
        (["train", "--value-head", "h"], ["hl-gauss"]),
        (
            ["train", "--preset", ""],
            ["auto", "cpu", "gpu", "tpu", "debug", "continuous", "fast", "max", "quality"],
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
