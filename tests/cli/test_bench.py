import json
import sys

import pytest
from processes import python

from hackmatrix_rl.cli.bench import Part, Speed
from hackmatrix_rl.games.hackmatrix import GameConfig

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.devices


@pytest.mark.slow
def test_bench_measures_environment_update_and_training(tmp_path):
    file = tmp_path / "bench.json"
    result = done(
        "bench", "--preset", "debug", "--mesh", "data=2", "--repeats", "3", "--json", file
    )
    found = json.loads(file.read_text())
    assert found.keys() == {
        *("env", "update", "train", "peak_memory_bytes", "device", "versions", "sizes")
    }
    assert "mfu" not in found["env"]
    assert found["train"]["mfu"] > 0
    assert found["update"]["mfu"] > 0
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
def test_bench_measures_an_algorithm_that_names_its_steps_otherwise():
    result = done("bench", "--preset", "debug", "--algorithm", "r2d2", "--repeats", "1")
    assert "steps " in result.output
    assert "train" in result.output


@pytest.mark.nightly
@pytest.mark.slow
def test_bench_compares_the_environment_with_pgx(tmp_path):
    file = tmp_path / "compared.json"
    # In a process of its own: importing pgx starts the devices, whose number is set before.
    flags = ("--num-envs", "16", "--repeats", "3", "--json", file)
    given = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": ""}
    command = ("-m", "hackmatrix_rl", "bench", "--compare", "pgx")
    told = python(*command, *flags, as_users=True, **given)
    found = json.loads(file.read_text())
    ours, theirs = found["env"], found["pgx minatar-asterix"]
    for each in (ours, theirs):
        assert each["checksum"] != 0
        assert each["episodes"] > 0
        assert each["compile_seconds"] > 0
    pairs = zip(ours["steps_per_second"]["runs"], theirs["steps_per_second"]["runs"], strict=True)
    assert found["ratios"]["pairs"] == [ours / theirs for ours, theirs in pairs]
    assert found["ratio"] == sorted(found["ratios"]["pairs"])[1]
    assert ours["dropped_spawns"] == 0
    assert found["sizes"]["num_envs"] == 16
    assert found["device"]["count"] == 2
    assert f"ratio {found['ratio']:.3f}" in told


def test_a_comparison_without_pgx_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "pgx", None)
    result = invoke("bench", "--compare", "pgx")
    assert_refused(result, "--compare pgx needs the package pgx", "pip install '.[pgx]'")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_full_bench_measures_young_and_late_games_and_training(tmp_path, monkeypatch):
    # One of them, which is compiled for the other tests, too.
    monkeypatch.setattr("hackmatrix_rl.cli.bench._full_benchmark.PRECISIONS", ("f32",))
    file = tmp_path / "full.json"
    sizes = ("--preset", "debug", "--sizes", "16", "--mesh", "data=2", "--repeats", "2")
    done("bench", "--full", *sizes, "--json", file)
    found = json.loads(file.read_text())
    assert found["complete"]
    parts = [(part["part"], part["precision"]) for part in found["parts"]]
    assert parts == [("env", None), ("late", None), ("train", "f32")]
    for part in found["parts"]:
        assert part["failure"] is None
        assert part["num_envs"] == 16
        assert part["memory"] > 0
        assert len(part["steps_per_second"]["runs"]) == 2
    young, late = found["parts"][:2]
    assert (young["stage"], late["stage"]) == (1, 6)
    assert young["checksum"] not in (0, late["checksum"])
    # A game ends at most once in the few steps of a late run.
    assert 0 < late["episodes"] <= 2 * 16


def test_a_full_bench_that_is_cut_short_has_written_what_was_done(tmp_path, monkeypatch):
    def cut_short(*_, **__):
        yield Part("env", 64, speed=Speed((1.0, 3.0), 2.0))
        raise KeyboardInterrupt

    monkeypatch.setattr("hackmatrix_rl.cli.bench.full_benchmark", cut_short)
    file = tmp_path / "full.json"
    result = invoke("bench", "--full", "--preset", "debug", "--sizes", "64", "--json", file)
    assert result.exit_code == 130
    found = json.loads(file.read_text())
    assert not found["complete"]
    (part,) = found["parts"]
    assert part["part"] == "env"
    assert part["steps_per_second"]["median"] == 2


def test_what_finds_no_room_is_told_and_the_rest_goes_on(monkeypatch):
    for module in ("cli.bench._full_benchmark", "runs._preflight"):
        monkeypatch.setattr(f"hackmatrix_rl.{module}.available_memory", lambda: (1000, "RAM"))
    result = done("bench", "--full", "--preset", "debug", "--sizes", "16,64")
    said = [line for line in result.output.splitlines() if " games: " in line]
    assert len(said) == 4  # two sizes of the environment, training in two precisions
    assert all("needs" in line and ("bytes" in line or "KiB" in line) for line in said)
