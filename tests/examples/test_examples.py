"""Each example and notebook, copied to an empty folder, runs against the built wheel."""

import importlib.util
import re

import jax
import nbformat
import numpy as np
import pytest
from interop.protocol.headless import headless_command
from nbclient import NotebookClient

import hackmatrix_rl as hm
from hackmatrix_rl.env import TacticalObservation
from hackmatrix_rl.runs.config import make_config, read_settings
from hackmatrix_rl.runs.export import export_agent

from .conftest import ROOT, run_python

EXAMPLES = ROOT / "examples"
NOTEBOOKS = ROOT / "notebooks"

pytestmark = pytest.mark.slow

# What to run each script with, so that it ends soon, and what it then prints.
SCRIPTS = {
    "play_random_games.py": (["5"], "of 1000 games are over after 5 turns"),
    "one_ply_search.py": (["4", "2"], "4 games, 2 moves"),
    "own_network.py": (["4096"], "4,096 steps"),
    "own_memory.py": (["60000"], r"mean return \+1.00"),
    "own_environment.py": (["300000"], r"mean return \+0.9"),
    "own_continuous.py": (["120000"], r"mean return -1\.\d"),
    "own_reward.py": (["4096"], r"learned_return +[-+]\d"),
    "own_loss.py": (["4096"], r"4,096 steps.* bonus \d"),
    "own_algorithm.py": (["40960"], "40,960 steps.* return"),
    "own_precision.py": (["16384"], r"layers\[0\]\.weight +float32 +float16"),
    "eight_devices.py": (["8192"], r"largest difference of a parameter: \d\.\de-0[5-9]"),
    "sweep_seeds.py": (["4096", "2"], "2 seeds: return"),
    "export_agent.py": ([], "JAX alone: "),
}

# The sizes in each notebook with small ones in their place, and what it then shows.
SMALL = {
    "first_look.ipynb": (
        {"GAMES, TURNS = 1000, 60": "GAMES, TURNS = 16, 4"},
        r"DOWN SIPHON.*stage that each game reached.*pretrained <game of \d+ moves.*<iframe",
    ),
    "compose_an_agent.ipynb": (
        {"STEPS = 600_000": "STEPS = 16_384", "episodes=200": "episodes=8"},
        r"16,384 steps.*trained +return.*runner +return.*<iframe",
    ),
    "study_an_agent.ipynb": (
        {
            "EPISODES = 200": "EPISODES = 4",
            "GAMES = 500": "GAMES = 24",
            "ROLLOUTS = 30": "ROLLOUTS = 15",
        },
        r"wins in 100 games.*24 games, [\d,]+ moves.*it takes.*the search takes.*without UNDO",
    ),
}


NIGHTLY = ("one_ply_search.py", "own_loss.py", "own_reward.py", "sweep_seeds.py")
"""Scripts that compile the game for long, and differ from others in a few lines."""


def by_name(names, nightly):
    """The names as parameters of a test, some of them for the nightly session."""
    return [
        pytest.param(name, marks=[pytest.mark.nightly] if name in nightly else []) for name in names
    ]


ALONE = """
import runpy, sys
import numpy, onnxruntime

class Recorded(onnxruntime.InferenceSession):
    def run(self, names, given):
        answers = super().run(names, given)
        positions.append({**given, "logits": answers[0]})
        return answers

sys.modules.update(dict.fromkeys(("hackmatrix_rl", "jax", "equinox")))
positions, onnxruntime.InferenceSession, sys.argv = [], Recorded, sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
numpy.savez("positions.npz", **{
    name: numpy.concatenate([each[name] for each in positions]) for name in positions[0]
})
"""
"""Runs a script where this package cannot be imported, and keeps what the agent saw and said."""


@pytest.mark.parametrize(
    "name", ["pretrained@1", pytest.param("pretrained", marks=pytest.mark.nightly)]
)
def test_an_exported_agent_plays_a_whole_game_without_this_package(name, run_alone, tmp_path):
    loaded = hm.load(name)
    export_agent(loaded.agent(), loaded.environment, tmp_path / "agent.onnx", format="onnx")
    (tmp_path / "play.py").write_text((EXAMPLES / "play_exported.py").read_text("utf-8"), "utf-8")
    game = [*headless_command(), "--seed", "0"]
    output = run_alone("alone.py", ALONE, "play.py", "agent.onnx", *game)
    moves = re.search(r"^(\d+) moves: (won|died) in stage \d\nscore \d+$", output, re.MULTILINE)
    with np.load(tmp_path / "positions.npz") as told:
        arrays = dict(told)
    mask, logits = arrays.pop("mask"), arrays.pop("logits")
    assert len(mask) == int(moves[1]) > 50
    seen = TacticalObservation(**arrays)
    right, _, _ = jax.jit(jax.vmap(lambda seen: loaded.policy(seen, ())))(seen)
    np.testing.assert_allclose(logits, np.where(mask, right, -np.inf), atol=2e-5, rtol=1e-5)


def test_every_script_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SCRIPTS, "play_exported.py"}


@pytest.mark.parametrize("name", by_name(SCRIPTS, NIGHTLY))
def test_a_script_runs(name, run_alone):
    arguments, printed = SCRIPTS[name]
    output = run_alone(name, (EXAMPLES / name).read_text(encoding="utf-8"), *arguments)
    assert re.search(printed, output)


def test_the_wheel_is_what_is_run(run_alone, wheel_environment):
    output = run_alone("where.py", "import hackmatrix_rl; print(hackmatrix_rl.__file__)")
    assert output.startswith(wheel_environment["PYTHONPATH"])


def test_the_example_of_the_readme_runs_and_is_short(run_alone):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- example -->\n```python\n(.*?)```", readme, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 32
    for long, short in (("1_000_000", "8_192"), ("episodes=500", "episodes=8")):
        assert code.count(long) == 1
        code = code.replace(long, short)
    output = run_alone("readme.py", code)
    assert "8,192 steps" in output
    assert output.count("'episodes': 8") == 2


def read(name):
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def count(outputs, kind):
    return sum(kind in output.get("data", {}) for output in outputs)


def test_every_notebook_is_run_and_listed():
    names = {path.name for path in NOTEBOOKS.glob("*.ipynb")}
    assert names == set(SMALL)
    listed = (NOTEBOOKS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\w+\.ipynb)\)", listed)) == names


@pytest.mark.parametrize("name", by_name(SMALL, {*SMALL} - {"first_look.ipynb"}))
def test_a_notebook_runs(name, wheel_environment, tmp_path, monkeypatch):
    notebook = read(name)
    stored = outputs_of(notebook)
    sizes, printed = SMALL[name]
    for long, short in sizes.items():
        assert sum(cell.source.count(long) for cell in notebook.cells) == 1, long
        for cell in notebook.cells:
            cell.source = cell.source.replace(long, short)
    for variable, value in wheel_environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("MPLBACKEND")  # figures are shown in the notebook
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, resources=resources).execute()
    outputs = outputs_of(notebook)
    words = "".join(output.get("text", "") + str(output.get("data", "")) for output in outputs)
    assert re.search(printed, words, flags=re.DOTALL)
    for kind in ("image/png", "image/svg+xml", "text/html"):
        assert count(outputs, kind) == count(stored, kind)


@pytest.mark.parametrize("name", SMALL)
def test_a_notebook_is_stored_with_what_it_shows(name):
    notebook = read(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    shows = re.compile(r"\b(?:print\(|plt\.show\(|hm\.show\(|HTML\()")
    for cell in code:
        assert cell.get("outputs") or not shows.search(cell.source) or "def " in cell.source
    assert count(outputs_of(notebook), "image/svg+xml") > 0
    assert count(outputs_of(notebook), "image/png") > 0
    path = NOTEBOOKS / "execute.py"
    specification = importlib.util.spec_from_file_location("execute", path)
    execute = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(execute)
    assert execute.trouble(notebook, nbformat.writes(notebook)) is None
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert notebook.metadata == execute.METADATA


@pytest.mark.parametrize("name", SMALL)
def test_the_first_cell_of_a_notebook_installs_only_what_is_missing(name):
    first = next(cell for cell in read(name).cells if cell.cell_type == "code")
    assert not first.outputs
    lines = ['if importlib.util.find_spec("hackmatrix_rl") is None:', "    %pip install"]
    assert "\n".join(lines) in first.source


def test_the_settings_files_are_valid():
    settings = read_settings(EXAMPLES / "settings.toml")
    preset = settings.pop("preset")
    assert make_config(preset, settings).network == "conv"
    measures = ("remat", "grad_accum", "offload_optimizer", "aux_every", "mesh")
    for name, expected in (
        ("conservative", ("blocks", 1, False, 4, "auto")),
        ("aggressive", ("blocks", 4, True, 4, "data=1,fsdp=4")),
    ):
        config = make_config("tpu", read_settings(EXAMPLES / f"{name}.toml"))
        assert tuple(getattr(config, each) for each in measures) == expected


@pytest.mark.parametrize(
    ("name", "mesh"),
    [("conservative", "data=4: 4 x cpu"), ("aggressive", "data=1,fsdp=4: 4 x cpu")],
)
@pytest.mark.nightly
def test_the_settings_of_large_networks_make_a_plan(wheel_environment, tmp_path, name, mesh):
    settings = ("--config", str(EXAMPLES / f"{name}.toml"), "--preset", "cpu")
    command = ("-m", "hackmatrix_rl", "train", *settings, "--dry-run", "--cpu-devices", "4")
    environment = wheel_environment | {"XLA_FLAGS": ""}  # the tests' own devices
    status, told = run_python(*command, cwd=tmp_path, env=environment)
    assert status == 0, told
    assert "residual of width 512, 29,777,021 parameters" in told
    assert mesh in told


def test_a_network_of_ones_own_is_named_on_the_command_line(wheel_environment, tmp_path):
    source = (EXAMPLES / "own_network.py").read_text(encoding="utf-8")
    (tmp_path / "own_network.py").write_text(source, encoding="utf-8")
    command = ("train", "--preset", "debug", "--network", "own_network:Residual")
    command = ("-m", "hackmatrix_rl", *command, "--eval-episodes", "0")
    status, told = run_python(*command, cwd=tmp_path, env=wheel_environment)
    assert status == 0, told
    assert "network own_network:Residual" in told
