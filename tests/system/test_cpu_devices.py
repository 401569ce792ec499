"""A CPU that counts as several devices."""

import jax
import pytest
from processes import python
from runs.checkpoints.kept import NEWEST, forge_config, unpack

from hackmatrix_rl.runs import make_mesh
from hackmatrix_rl.runs.config import cpu_devices, make_config
from hackmatrix_rl.system import cut_cpu
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.processes

REPORT = """
import sys
from unittest import mock
from hackmatrix_rl.cli import main
from hackmatrix_rl.runs import make_mesh
def look(settings, **_):
    import jax
    print(jax.device_count(), make_mesh(settings).size)
    sys.exit()
with mock.patch("hackmatrix_rl.runs._launch.compose", look):
    main(["train", *sys.argv[1:]])
"""


def devices_seen(*arguments, **variables):
    """How many devices `train` starts, and how many of them it takes."""
    told = python("-c", REPORT, *arguments, **{"XLA_FLAGS": "", **variables})
    return tuple(map(int, told.split()))


def test_the_cpu_preset_trains_on_two_devices_which_can_be_turned_off():
    preset = ("--preset", "cpu")
    assert devices_seen(*preset) == (2, 2)
    assert devices_seen(*preset, "--cpu-devices", "none") == (1, 1)
    # Nobody's own word on it is overruled.
    assert devices_seen(*preset, "--mesh", "data=1", JAX_NUM_CPU_DEVICES="3") == (3, 1)


def test_a_resumed_run_cuts_the_cpu_before_a_check_of_its_game_starts_it(tmp_path):
    run = unpack(NEWEST, tmp_path)
    forge_config(run, cpu_devices=2, mesh="auto")
    assert devices_seen("--resume-run", run) == (2, 1)  # its games are too few for both


def test_a_cpu_that_counts_otherwise_already_is_one_line(monkeypatch):
    started = jax.local_device_count("cpu")
    monkeypatch.setenv("XLA_FLAGS", "")
    cut_cpu(started)
    with pytest.raises(ConfigError, match=rf"--cpu-devices 99: JAX has started with {started} on"):
        cut_cpu(99)


@pytest.mark.parametrize(
    ("changes", "devices"),
    [
        ({}, 8),
        ({"num_envs": 96, "num_minibatches": 2}, 6),
        ({"num_envs": 63, "num_minibatches": 1}, 7),
        ({"num_envs": 104, "num_minibatches": 13}, 1),
        ({"num_envs": 15, "num_minibatches": 1}, 1),
        ({"debug": "nojit"}, 1),
        ({"mesh": "data=4"}, 4),
    ],
)
def test_auto_takes_as_many_of_them_as_have_eight_games_of_a_minibatch(changes, devices):
    assert make_mesh(make_config("cpu", changes, "ppo")).size == devices


def test_the_number_is_known_or_refused_before_jax_is_told_of_it():
    assert cpu_devices("auto", {}) == 2
    assert cpu_devices("auto", {"cpu_devices": None}) is None
    assert cpu_devices("gpu", {}) is None
    assert cpu_devices("gpu", {"cpu_devices": 3}) == 3
    assert cpu_devices("no such preset", {}) is None
    with pytest.raises(ConfigError, match="--cpu-devices 0 is too small"):
        cpu_devices("auto", {"cpu_devices": 0})
    with pytest.raises(ConfigError, match="must be a whole number"):
        cpu_devices("auto", {"cpu_devices": "two"})
