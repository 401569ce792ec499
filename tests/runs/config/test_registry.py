"""The registry of algorithms, and that nothing but it knows one of them."""

import re
from pathlib import Path

import pytest

import hackmatrix_rl
from hackmatrix_rl.runs.config import algorithms, algorithms_of, options_of

PACKAGE = Path(hackmatrix_rl.__file__).parent


@pytest.mark.parametrize("room", ["runs", "cli"])
def test_a_room_below_the_algorithms_names_none_of_them(room):
    words = "|".join(re.sub("[^a-z0-9]", "[^a-z0-9]?", name) for name in algorithms())
    named = [
        f"{file.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for file in (PACKAGE / room).rglob("*.py")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(rf"(?<![a-z])({words})(?![a-z])", line, re.IGNORECASE)
    ]
    assert named == []


def test_each_config_tells_all_that_commands_and_runs_ask():
    assert {"train", "selfplay"} == {kind.command for kind in algorithms().values()}
    assert set(algorithms_of("train")) == {"ppo", "imitation", "r2d2", "pqn", "supervised"}
    for name, kind in algorithms().items():
        assert kind.algorithm == name
        assert kind.summary
        assert 4 <= len(dict(kind.panels)) == len(kind.panels) <= 6
        assert kind.memory
        assert "debug" in kind.presets


@pytest.mark.parametrize("kind", algorithms().values())
def test_every_field_is_explained_in_one_line(kind):
    for each in options_of(kind):
        explanation = each.metadata["help"]
        assert explanation.endswith("."), each.name
        assert "\n" not in explanation
        assert len(explanation) < 110, each.name
