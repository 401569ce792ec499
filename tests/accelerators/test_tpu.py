"""What the TPU's compiler makes of a training: it fits, and sends nothing while it plays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libtpu")

SCRIPT = Path(__file__).with_name("planned.py")
OF_TESTS = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS", "JAX_COMPILATION_CACHE_DIR")
"""Variables that tests set, and users do not."""
# More steps than gradient steps: what a rollout sent at every step would be sent more often.
FEW = {"num_steps": 16, "num_minibatches": 4, "update_epochs": 2}
PPO = {"algorithm": "ppo", **FEW}
NETWORKS = ("mlp", "conv", "gru", "lstm", "resnet", "transformer")
PROGRAMS = {
    "ppo": ("v4-8", PPO, "data=4: 4 x TPU v4"),
    "data and fsdp": (
        *("v4-64", {**PPO, "mesh": "data=8,fsdp=4"}),
        "data=8,fsdp=4: 32 x TPU v4 on 8 hosts, a process on each",
    ),
    "imitation": ("v4-8", {**FEW, "algorithm": "imitation"}, "data=4: 4 x TPU v4"),
    **{
        name: ("v6e-8", {**PPO, "network": name}, "data=8: 8 x TPU v6 lite on 2 hosts")
        for name in NETWORKS
    },
}
ONE, *OTHERS = PROGRAMS


@pytest.mark.parametrize(
    "name", [ONE, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)]
)
def test_a_training_fits_and_sends_nothing_while_it_plays(name):
    slice_name, settings, mesh = PROGRAMS[name]
    users = {key: value for key, value in os.environ.items() if key not in OF_TESTS}
    done = subprocess.run(
        [sys.executable, SCRIPT, slice_name, json.dumps(settings)],
        env=users | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert mesh in found["lines"][0]
    assert 0 < found["bytes"] < found["memory"]
    assert found["kinds"] == (["all-gather", "all-reduce"] if "fsdp" in mesh else ["all-reduce"])
    assert found["times"] == found["gradient_steps"]
    assert any("cycles of a device an update" in line for line in found["lines"])
    assert not found["float64"]
    assert found["host"] == []
