"""The page "Write your own algorithm": its script is killed and resumed, its config is tried."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hackmatrix_rl.runs.sinks import read_json_lines

from .conftest import ROOT, run_python

SCRIPT = ROOT / "examples" / "own_algorithm.py"
PAGE = ROOT / "docs" / "own_algorithm.md"
STEPS = "819_200"
"""40 dispatches: a process that is killed after the first one must not be over before."""

pytestmark = pytest.mark.slow


def test_a_killed_training_is_resumed_and_ends_in_the_same_bits(wheel_environment, tmp_path):
    shutil.copy(SCRIPT, tmp_path)
    for_tests = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
    users = {name: wheel_environment[name] for name in wheel_environment if name not in for_tests}

    def start(file):
        return subprocess.Popen(
            [sys.executable, SCRIPT.name, STEPS, file],
            cwd=tmp_path,
            env=users,
            stdout=subprocess.PIPE,
            text=True,
        )

    def steps_of(output):
        return [int(found.replace(",", "")) for found in re.findall(r"([\d,]+) steps", output)]

    whole = steps_of(start("whole").communicate(timeout=300)[0])
    assert len(whole) == 40

    killed = start("killed")
    first = steps_of(killed.stdout.readline())  # the file is written before
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert first == whole[:1]
    assert (tmp_path / "killed").read_bytes() != (tmp_path / "whole").read_bytes()

    resumed = steps_of(start("killed").communicate(timeout=300)[0])
    assert 0 < len(resumed) < len(whole)
    assert resumed == whole[-len(resumed) :]
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_config_of_the_page_gives_flags_a_run_folder_and_a_resume(wheel_environment, tmp_path):
    installed = Path(wheel_environment["PYTHONPATH"], "hackmatrix_rl")
    package = shutil.copytree(installed, tmp_path / "own" / "hackmatrix_rl")
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    (config,) = [code for code in blocks if "class ReinforceConfig" in code]
    (exports,) = re.findall(r"`(from \._config import \w+ as \w+)`", page)
    room = package / "algorithms" / "reinforce"
    room.mkdir()
    shutil.copy(SCRIPT, room / "_reinforce.py")
    (room / "_config.py").write_text(config, encoding="utf-8")
    (room / "__init__.py").write_text(exports, encoding="utf-8")
    (ppo,) = re.findall(r"`(\"ppo\": \"[\w.:]+\")`", page)
    mine = ppo.replace("ppo", "reinforce").replace("PPO", "Reinforce")
    registry = package / "algorithms" / "__init__.py"
    text = registry.read_text(encoding="utf-8")
    assert text.count(ppo) == 1
    registry.write_text(text.replace(ppo, f"{mine},\n{ppo}"), encoding="utf-8")

    def train(*arguments):
        own = wheel_environment | {"PYTHONPATH": str(package.parent)}
        return run_python("-m", "hackmatrix_rl", "train", *arguments, cwd=tmp_path, env=own)

    # A constant rate: the program does not depend on the end, and the second process finds it.
    chosen = ("--algorithm", "reinforce", "--env", "cartpole", "--preset", "debug")
    chosen += ("--num-steps", "8", "--eval-episodes", "0", "--learning-rate", "constant:0.001")
    status, told = train(*chosen, "--precision", "bf16")
    assert status == 2
    assert "REINFORCE computes in float32" in told

    status, told = train(*chosen, "--total-timesteps", "512", "--run-dir", "run")
    assert status == 0, told
    status, told = train("--resume-run", "run", "--total-timesteps", "1024")
    assert status == 0, told
    rows = list(read_json_lines(tmp_path / "run" / "metrics.jsonl"))
    assert [row["updates"] for row in rows] == [2, 4, 6, 8]
    assert all(row["gradient_steps"] == 2 and row["entropy"] > 0 for row in rows)
