"""Agents on a hub: a server on this machine, by the library that talks to the real one."""

import hashlib
import json
import shutil

import jax
import numpy as np
import pytest
from hub_server import TOKEN, Hub
from processes import python

import hackmatrix_rl as hm
from hackmatrix_rl.runs.checkpoints import _hub
from hackmatrix_rl.runs.export import contract

from .commands import assert_refused, done, invoke

hub_library = pytest.importorskip("huggingface_hub")
safetensors = pytest.importorskip("safetensors.numpy")


@pytest.fixture(scope="module")
def server():
    with Hub() as server:
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def hub(server, tmp_path, monkeypatch):
    """An empty hub, whose caches are empty, too."""
    from huggingface_hub import constants

    server.repositories.clear()
    server.half.clear()
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "library"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return server


NAME = "hf://somebody/an-agent"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub") / "run"
    done(
        "train",
        "--env",
        "cartpole",
        "--preset",
        "debug",
        "--eval-episodes",
        "0",
        "--run-dir",
        folder,
    )
    return folder


def test_a_pushed_agent_plays_by_its_name(run, hub):
    output = done("push", run, NAME, "--episodes", "4").output
    files = hub.repositories["somebody/an-agent"][-1]
    assert set(files) == {
        "README.md",
        "agent.json",
        "model.safetensors",
        "contract.json",
        "game.png",
    }
    card = files["README.md"].decode()
    front = json.loads(card.split("---")[1])
    assert front["model-index"][0]["results"][0]["metrics"][0]["type"] == "mean_return"
    assert f"hackmatrix-rl eval {NAME} --episodes 4 --seed 0" in card
    assert front["license"] == "apache-2.0"
    for part in ("An agent for CartPole", "| return |", "95% interval", "(game.png)", "seed = 0"):
        assert part in card
    assert files["game.png"].startswith(b"\x89PNG")
    for secret in (str(run), TOKEN):
        assert secret not in str(files), "of this machine"
    commit = hub.commit_of("somebody/an-agent", -1)
    assert commit in output
    there, here = hm.load(f"{NAME}@{commit}"), hm.load(run)
    for one, other in zip(jax.tree.leaves(there.policy), jax.tree.leaves(here.policy), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_equal(there.value_scale(), here.value_scale())
    asked = json.loads(done("eval", NAME, "--episodes", "4", "--json").output)
    assert asked == json.loads(done("eval", run, "--episodes", "4", "--json").output)
    about = contract(there.agent(), there.environment)
    assert json.loads(files["contract.json"]) == json.loads(json.dumps(about))
    assert f"{asked['return']['mean']:.4g}" in card


def test_every_use_of_an_agent_takes_its_name(run, hub, tmp_path):
    done("push", run, NAME, "--episodes", "0")
    done("watch", NAME, "--save", tmp_path / "game.json")
    done("export", NAME, "--format", "json", "--output", tmp_path / "agent.json")
    output = done(
        *("train", "--env", "cartpole", "--preset", "debug", "--total-timesteps", "512"),
        *("--init", NAME, "--eval-episodes", "0", "--run-dir", tmp_path / "next"),
    ).output
    assert f"of {NAME}" in output
    assert_refused(invoke("train", "--resume-run", NAME), NAME)


def test_an_app_is_played_by_its_name(hub, monkeypatch):
    done("push", "pretrained", NAME, "--episodes", "0")

    def plays(app, player, *given, **named):
        raise hm.ConfigError(f"{type(player.policy).__name__} plays")

    monkeypatch.setattr("hackmatrix_rl.interop.protocol.client.play_app", plays)
    said = f"{type(hm.load('pretrained').policy).__name__} plays"
    assert_refused(invoke("play-app", NAME, "--app", shutil.which("true")), said)


def test_it_is_fetched_once_and_read_without_a_network(run, hub, monkeypatch):
    done("push", run, NAME, "--episodes", "0")
    first = hm.load(NAME).folder
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert hm.load(NAME).folder == first


def test_a_new_process_asks_the_hub(hub):
    """The library loads its modules when they are first used: this process has loaded them."""
    code = (
        "import hackmatrix_rl as hm\ntry:\n    hm.load('hf://somebody/an-agent')\n"
        "except hm.ConfigError as error:\n    print(error)"
    )
    assert "no such repository" in python("-c", code, HF_ENDPOINT=hub.address)


def damaged(content):
    """The same number of bytes, of which the last is another."""
    return content[:-1] + bytes([content[-1] ^ 1])


def no_update(hub, files):
    """A description whose metadata no checkpoint has."""
    about = json.loads(files["agent.json"])
    about["metadata"]["update"] = -1
    files["agent.json"] = json.dumps(about).encode()


FAULTS = {
    "no update": (no_update, "update: must be a whole number from 0"),
    "no repository": (lambda hub, files: hub.repositories.clear(), "no such repository"),
    "another sum": (
        lambda hub, files: files.update({"model.safetensors": damaged(files["model.safetensors"])}),
        "is not what was pushed",
    ),
    "half a file": (lambda hub, files: hub.half.add("model.safetensors"), "the hub says"),
    "no weights": (lambda hub, files: files.pop("model.safetensors"), "it has no agent.json with"),
    "no JSON": (lambda hub, files: files.update({"agent.json": b"[" * 100_000}), "agent.json"),
    "another format": (lambda hub, files: files.update({"agent.json": b"{}"}), "not of format 1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_hub_is_one_line(run, hub, fault):
    done("push", run, NAME, "--episodes", "0")
    break_it, said = FAULTS[fault]
    break_it(hub, hub.repositories["somebody/an-agent"][-1])
    assert_refused(invoke("eval", NAME, "--episodes", "4"), NAME, said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf://../../etc", "write hf://USER/NAME"),
        ("hf://somebody", "write hf://USER/NAME"),
        ("hf://somebody/an-agent@../x", "write hf://USER/NAME"),
        ("hf://somebody/an-agent@no-such", "no such revision"),
    ],
)
def test_a_wrong_name_is_one_line(run, hub, name, said):
    done("push", run, NAME, "--episodes", "0")
    assert_refused(invoke("eval", name), name, said)


def test_a_push_that_cannot_be_is_refused_before_games_are_played(run, hub, monkeypatch, tmp_path):
    monkeypatch.setattr("hackmatrix_rl.evaluation.evaluate", None)
    hub.repositories["somebody/else"] = [{"weights.bin": b""}]
    assert_refused(invoke("push", run, "hf://others/agent"), "taken", "hf://a-group/NAME")
    assert_refused(invoke("push", run, "hf://somebody/else"), "the name is taken", "weights.bin")
    assert_refused(invoke("push", run, f"{NAME}@main"), "leave @main out")
    assert_refused(invoke("push", "runner", NAME), "runner is no network")
    assert_refused(invoke("push", tmp_path, NAME), "no checkpoint there")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert_refused(invoke("push", run, NAME), "the hub says")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert_refused(invoke("push", run, NAME), "hf auth login")


def named_code(about, arrays):
    about["metadata"]["config"]["network"] = "os:system"


def renamed(about, arrays):
    arrays[f"{next(iter(arrays))}/../../x"] = arrays.pop(next(iter(arrays)))


def reshaped(about, arrays):
    arrays.update({name: np.zeros((3, 3), np.float32) for name in arrays})


def not_finite(about, arrays):
    arrays.update({name: np.full_like(each, np.nan) for name, each in arrays.items()})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (named_code, ("os:system", "--trust-code")),
        (renamed, (NAME,)),
        (reshaped, ("is float32[3, 3] in the checkpoint",)),
        (not_finite, ("holds NaN or infinity",)),
    ],
)
def test_what_is_downloaded_is_checked_like_any_checkpoint(run, hub, change, said):
    """Custom code, names of arrays, shapes and numbers, under a sum that fits."""
    done("push", run, NAME, "--episodes", "0")
    files = hub.repositories["somebody/an-agent"][-1]
    about = json.loads(files["agent.json"])
    arrays = safetensors.load(files["model.safetensors"])
    change(about, arrays)
    files["model.safetensors"] = safetensors.save(arrays)
    about["sha256"] = hashlib.sha256(files["model.safetensors"]).hexdigest()
    files["agent.json"] = json.dumps(about).encode()
    assert_refused(invoke("eval", NAME, "--episodes", "4"), *said)


def test_a_file_that_is_too_large_is_not_fetched(run, hub, monkeypatch):
    done("push", run, NAME, "--episodes", "0")
    monkeypatch.setitem(_hub.MOST, "model.safetensors", 100)
    assert_refused(
        invoke("eval", NAME), "the size of model.safetensors is", "at most 100 bytes are"
    )
