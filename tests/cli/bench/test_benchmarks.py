"""The command that runs all benchmarks: which tables it writes, and what it does not touch."""

import importlib.util
import json
from pathlib import Path

import jax
import pytest

import hackmatrix_rl as hm

pytestmark = pytest.mark.devices

FOLDER = Path(__file__).parents[3] / "benchmarks"


def script(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def all_benchmarks():
    return script("all")


def test_a_table_is_replaced_between_its_markers_alone(all_benchmarks):
    page = "before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\nb\n<!-- /b -->\nafter\n"
    changed = all_benchmarks.replaced(page, "a", ["new", "", "newer"])
    assert changed == page.replace("old", "new\n\nnewer")
    assert all_benchmarks.replaced(changed, "a", ["old"]) == page


@pytest.mark.parametrize("page", ["", "<!-- /a --><!-- a -->", "<!-- a --><!-- a --><!-- /a -->"])
def test_a_page_without_the_markers_is_refused(all_benchmarks, page):
    with pytest.raises(ValueError, match="must be one <!-- a -->"):
        all_benchmarks.replaced(page, "a", [])


def test_every_benchmark_has_its_place_in_the_page(all_benchmarks):
    page = (FOLDER / "RESULTS.md").read_text()
    for name, benchmark in all_benchmarks.BENCHMARKS.items():
        all_benchmarks.replaced(page, name, [])
        what = benchmark.command[0]
        assert what == "-m" or (FOLDER.parent / what).is_file()


def test_every_part_of_the_profile_is_a_function_of_the_rules_as_they_are():
    profile = script("profile_env")
    environment, games = hm.HackMatrix(), 3
    traced = []

    def trace():
        table = profile.parts(profile.played(environment, games, steps=1))
        for name, part in table.items():
            found = part.function(*part.arguments)
            assert all(leaf.shape[0] == games for leaf in jax.tree.leaves(found)), name
            if part.in_place:
                first = found[0] if isinstance(found, tuple) else found
                assert jax.tree.structure(first) == jax.tree.structure(part.arguments[0])
            traced.append(name)

    jax.eval_shape(trace)  # nothing is compiled
    assert {"mask", "action", "movement", "history", "whole step"} <= set(traced)


@pytest.fixture(scope="module")
def peers():
    return script("peers")


def test_peers_are_compared_run_by_run(peers, all_benchmarks):
    rows = [
        {"player": name, "seed": seed, "clock": clock, "cpu": 1.0, "compile_seconds": 3.0}
        for seed, pair in enumerate([(300.0, 100.0), (200.0, 400.0), (900.0, 300.0)])
        for name, clock in zip(("ours", "other"), pair, strict=True)
    ]
    for row in rows[:4]:
        row["return"] = 500.0
    found = {"steps": 1_000, "versions": {"other": "1.2"}, "rows": peers.summary(rows)}
    assert found["rows"][1]["clock_ratio"] == {"median": 3.0, "min": 0.5, "max": 3.0}
    table = all_benchmarks.peers_table(json.loads(json.dumps(found)))
    assert table[0].endswith("| return after 1,000 steps, seeds 0, 1 |")
    assert table[3] == (
        "| other | 300 (100 to 400) | 1 (1 to 1) | 3.00 (0.50 to 3.00) | 1.00 (1.00 to 1.00) | 3 | "
        "500.0, 500.0 |"
    )
    assert table[-1] == "With other 1.2."


def test_this_package_trains_among_the_peers(peers, monkeypatch):
    pytest.importorskip("gymnax")
    monkeypatch.setattr(peers, "NUM_ENVS", 4)
    monkeypatch.setattr(peers, "NUM_STEPS", 2)
    monkeypatch.setattr(peers, "EPISODES", 2)
    trained = peers.ours(16)(0)
    assert min(trained.seconds) > 0
    assert trained.evaluate() > 0
