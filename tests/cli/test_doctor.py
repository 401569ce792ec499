"""`hackmatrix-rl doctor` and `--version`."""

import json

import jax
import pytest

from .commands import done, invoke

pytestmark = pytest.mark.processes

PARTS = ["versions", "settings", "devices", "memory", "cache", "training", "wandb"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")


def parts(result):
    return {part["part"]: part for part in json.loads(result.stdout)["parts"]}


def test_it_looks_at_every_part_and_trains():
    result = done("doctor")
    for part in PARTS:
        assert f" {part} " in result.stdout
    assert "an update of" in result.stdout


def test_a_part_that_fails_is_told_and_the_rest_is_looked_at(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr("hackmatrix_rl.runs._doctor.enable_compilation_cache", lambda: blocked)
    monkeypatch.setattr("hackmatrix_rl.runs._doctor.compose", lambda *_, **__: 1 / 0)
    result = invoke("doctor", "--json")
    assert result.exit_code == 1
    found = parts(result)
    assert list(found) == PARTS
    failed = [name for name, part in found.items() if part["judgement"] == "fails"]
    assert failed == ["cache", "training"]
    assert "JAX_COMPILATION_CACHE_DIR" in found["cache"]["remedy"]
    assert "division by zero" in found["training"]["found"]


def test_what_could_be_better_is_a_note(monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs._doctor.compose", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(
        "hackmatrix_rl.runs._doctor.unseen_accelerator", lambda _: "Install the extra cuda."
    )
    monkeypatch.setattr("hackmatrix_rl.runs._doctor.available_memory", lambda: (1, "free RAM"))
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", "/nowhere")
    found = parts(invoke("doctor", "--json"))
    notes = {name for name, part in found.items() if part["judgement"] == "note"}
    assert notes >= {"devices", "memory", "wandb"}
    assert found["devices"]["remedy"] == "Install the extra cuda."
    assert "wandb login" in found["wandb"]["remedy"]


def test_the_version_names_jax_and_the_rules():
    result = done("--version")
    assert f"jax {jax.__version__}" in result.stdout
    assert "rules 1" in result.stdout
