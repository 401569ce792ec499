import json

import pytest

from .commands import invoke

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["trained", "random", "runner"])
def test_json_is_one_object_and_nothing_else(target, trained):
    place = trained[0] if target == "trained" else target
    result = invoke("eval", place, "--episodes", "8", "--seed", "1", "--json")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 1
    found = json.loads(result.stdout)
    assert found.keys() == {"episodes", "return", "length", "score", "stage", "win_rate"}
    assert found["episodes"] == 8
    for name in ("return", "length", "score", "win_rate"):
        assert found[name].keys() == {"mean", "ci95"}
    for name in ("return", "length", "score", "stage", "win_rate"):
        low, high = found[name]["ci95"]
        assert low <= found[name]["mean"] <= high
    assert found["stage"].keys() == {"mean", "ci95", "histogram"}
    assert sum(found["stage"]["histogram"].values()) == 8
    mean = sum(int(stage) * n for stage, n in found["stage"]["histogram"].items()) / 8
    assert mean == pytest.approx(found["stage"]["mean"])


def test_the_same_seed_gives_the_same_games(trained):
    def play(seed):
        return invoke("eval", trained[0], "--episodes", "8", "--seed", seed, "--json").stdout

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_without_json_there_is_a_table(trained):
    result = invoke("eval", trained[0], "--episodes", "8")
    assert result.exit_code == 0
    for row in ("return", "stage reached", "win rate", "score", "length", "ended in stage 1"):
        assert row in result.output
