import json

import pytest

from hackmatrix_rl.game import GameConfig

from .commands import invoke


@pytest.mark.slow
def test_bench_measures_environment_update_and_training(tmp_path):
    file = tmp_path / "bench.json"
    result = invoke(
        "bench", "--preset", "debug", "--mesh", "data=2", "--repeats", "3", "--json", file
    )
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert found.keys() == {
        "env",
        "update",
        "train",
        "peak_memory_bytes",
        "device",
        "versions",
        "sizes",
    }
    for name in ("env", "update", "train"):
        speed = found[name]["steps_per_second"]
        assert 0 < speed["min"] <= speed["median"] <= speed["max"]
        assert len(speed["runs"]) == 3
        assert found[name]["compile_seconds"] > 0
        assert name in result.output
    assert found["env"]["checksum"] != 0
    assert found["env"]["dropped_spawns"] == 0
    assert found["env"]["episodes"] > 0
    assert found["peak_memory_bytes"] > 2**20
    assert found["sizes"]["max_enemies"] == GameConfig().max_enemies
    assert found["device"]["platform"] == "cpu"
    assert {"jax", "jaxlib", "hackmatrix-rl"} <= found["versions"].keys()


@pytest.mark.slow
def test_bench_compares_the_environment_with_pgx(tmp_path):
    file = tmp_path / "compared.json"
    sizes = ("--preset", "debug", "--num-envs", "16", "--mesh", "data=2", "--repeats", "3")
    result = invoke("bench", "--compare", "pgx", *sizes, "--json", file)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    ours, theirs = found["env"], found["pgx minatar-asterix"]
    for each in (ours, theirs):
        assert each["checksum"] != 0
        assert each["episodes"] > 0
        assert each["compile_seconds"] > 0
    pairs = zip(ours["steps_per_second"]["runs"], theirs["steps_per_second"]["runs"], strict=True)
    assert found["ratio"]["pairs"] == [ours / theirs for ours, theirs in pairs]
    assert found["ratio"]["median"] == sorted(found["ratio"]["pairs"])[1]
    assert ours["dropped_spawns"] == 0
    assert found["sizes"]["num_envs"] == 16
    assert found["device"]["count"] == 2
    assert f"ratio {found['ratio']['median']:.3f}" in result.output


def test_a_comparison_without_pgx_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.training.pgx_environment.find_spec", lambda name: None)
    result = invoke("bench", "--compare", "pgx")
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        "Error: --compare pgx needs the package pgx, which is not installed. Install the compare "
        "extra: pip install '.[compare]'"
    ]
