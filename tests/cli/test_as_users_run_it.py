"""Real processes with the compiler options that users get.

The other tests compile with fewer optimizations, or in this process. A compiler that fails ends the
process, so each training is one of its own. Meshes and several processes: tests/pages.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("games", [1, 8])
def test_few_games_on_one_device_train(games, tmp_path):
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    flags = ("--preset", "debug", "--num-envs", games, "--num-minibatches", 1)
    small = ("--num-steps", 4, "--total-timesteps", 8, "--eval-episodes", 0)
    done = subprocess.run(
        [sys.executable, "-m", "hackmatrix_rl", "train", *map(str, (*flags, *small))],
        cwd=tmp_path,
        env=own | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "100%" in done.stdout


@pytest.mark.nightly
def test_q_learning_trains_on_a_cpu_of_two_devices(tmp_path):
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    flags = ("--preset", "max", "--total-timesteps", 4096, "--learning-starts", 1024)
    done = subprocess.run(
        [sys.executable, "-m", "hackmatrix_rl", "train", *map(str, (*flags, "--eval-episodes", 4))],
        cwd=tmp_path,
        env=own | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "a gradient step on 128 sequences of 10 actions" in done.stdout
    assert "trained to the end at 4,096 steps; saved" in done.stdout


@pytest.mark.nightly
def test_self_play_trains_on_a_cpu_of_two_devices(tmp_path):
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    flags = ("--cpu-devices", 2, "--num-games", 100, "--num-simulations", 8)
    league = ("--league-size", 1, "--league-games", 2)
    done = subprocess.run(
        [sys.executable, "-m", "hackmatrix_rl", "selfplay", *map(str, (*flags, *league))],
        cwd=tmp_path,
        env=own | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "(2 x cpu)" in done.stdout
    assert "Against the perfect player: " in done.stdout
