"""Each example, copied to an empty folder, runs against the built wheel."""

import re
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from hackmatrix_rl.config import make_config, read_settings

from .conftest import ROOT

EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.slow

# What to run each script with, so that it ends soon, and what it then prints.
SCRIPTS = {
    "play_random_games.py": (["5"], "of 1000 games are over after 5 turns"),
    "own_network.py": (["4096"], "4,096 steps"),
    "own_environment.py": (["60000"], r"mean return \+1.00"),
    "own_precision.py": (["16384"], r"layers\[0\]\.weight +float32 +float16"),
}


def test_every_script_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
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


def test_the_notebook_runs(wheel_environment, tmp_path, monkeypatch):
    notebook = nbformat.read(EXAMPLES / "compose_an_agent.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("STEPS = 600_000", "STEPS = 16_384")
        cell.source = cell.source.replace("episodes=200", "episodes=8")
    assert "STEPS = 16_384" in notebook.cells[1].source
    for name, value in wheel_environment.items():
        monkeypatch.setenv(name, value)
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    evaluated, shown, watched = (notebook.cells[place].outputs for place in (-4, -2, -1))
    assert any("trained" in str(output) for output in evaluated)
    assert any("image/svg+xml" in output.get("data", {}) for output in shown)
    assert any("<iframe" in output.get("data", {}).get("text/html", "") for output in watched)


def test_the_notebook_is_stored_without_outputs():
    notebook = nbformat.read(EXAMPLES / "compose_an_agent.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_the_settings_file_is_valid():
    settings = read_settings(EXAMPLES / "settings.toml")
    preset = settings.pop("preset")
    assert make_config(preset, settings).network == "conv"


def test_a_network_of_ones_own_is_named_on_the_command_line(wheel_environment, tmp_path):
    source = (EXAMPLES / "own_network.py").read_text(encoding="utf-8")
    (tmp_path / "own_network.py").write_text(source, encoding="utf-8")
    command = ["train", "--preset", "debug", "--network", "own_network:Residual"]
    done = subprocess.run(
        [sys.executable, "-m", "hackmatrix_rl", *command, "--eval-episodes", "0"],
        cwd=tmp_path,
        env=wheel_environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "network own_network:Residual" in done.stdout
