"""What the compilers of TPUs and GPUs make of a training: it fits, and plays without sending."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("planned.py")
OF_TESTS = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS", "JAX_COMPILATION_CACHE_DIR")
"""Variables that tests set, and users do not."""
STEPS = 16
# More steps than gradient steps: what a rollout sent at every step would be sent more often.
FEW = {"num_steps": STEPS, "num_minibatches": 4, "update_epochs": 2}
BY_PPO = {"algorithm": "ppo", "num_envs": 1024, **FEW}
SUM, SHARDED = ["all-reduce"], ["all-gather", "all-reduce"]
# The TPU's compiler adds up between slices in three parts; only the middle one crosses.
HIERARCHICAL = ["all-gather", "all-reduce", "reduce-scatter"]
V4, V5E = "data=4: 4 x TPU v4", "data=4: 4 x TPU v5 lite"
V6E = "data=8: 8 x TPU v6 lite"
V4_64 = "32 x TPU v4 on 8 hosts, a process on each"
# Name: slice, settings, mesh, collectives, gradient steps of an update.
PROGRAMS = {
    "ppo": ("v4-8", BY_PPO, V4, SUM, 8),
    "imitation": ("v4-8", {**BY_PPO, "algorithm": "imitation"}, V4, SUM, 8),
    "r2d2": (
        "v4-8",
        {"algorithm": "r2d2", "num_envs": 64, "train_freq": STEPS, "train_steps": 2},
        *(V4, SUM, 2),
    ),
    "self-play": (
        "v4-8",
        {
            "algorithm": "self-play",
            **{"num_simulations": 8, "moves_per_update": STEPS, "train_steps": 2},
        },
        *(V4, SUM, 2),
    ),
    "pqn": ("v5e-4", {**BY_PPO, "algorithm": "pqn"}, V5E, SUM, 8),
    "data and fsdp": (
        "v4-64",
        {**BY_PPO, "num_envs": 8192, "mesh": "data=8,fsdp=4"},
        *(f"data=8,fsdp=4: {V4_64}", SHARDED, 8),
    ),
    "many hosts": ("v4-64", {**BY_PPO, "num_envs": 8192}, f"data=32: {V4_64}", SUM, 8),
    "two slices": (
        "2xv4-8",
        {**BY_PPO, "num_envs": 2048},
        "data=8: 8 x TPU v4 on 2 hosts of 2 slices, a process on each",
        *(HIERARCHICAL, 8),
    ),
    "gru": ("v4-8", {**BY_PPO, "network": "gru"}, V4, SUM, 8),
    "gru and fsdp": (
        "v4-8",
        {**BY_PPO, "network": "gru", "mesh": "data=2,fsdp=2"},
        *("data=2,fsdp=2: 4 x TPU v4", SHARDED, 8),
    ),
    "f32": ("v6e-8", {**BY_PPO, "precision": "f32"}, V6E, SUM, 8),
    "mlp": ("v5e-4", {**BY_PPO, "network": "mlp"}, V5E, SUM, 8),
    "conv": ("v6e-8", {**BY_PPO, "network": "conv"}, V6E, SUM, 8),
    "lstm": ("v5e-4", {**BY_PPO, "network": "lstm"}, V5E, SUM, 8),
    "resnet": ("v6e-8", {**BY_PPO, "network": "resnet"}, V6E, SUM, 8),
    "transformer": ("v5e-4", {**BY_PPO, "network": "transformer"}, V5E, SUM, 8),
    "h100": ("h100", BY_PPO, "data=1: 1 x NVIDIA H100 80GB HBM3", [], 8),
    "eight h100": (
        "8xh100",
        {**BY_PPO, "num_envs": 2048},
        *("data=8: 8 x NVIDIA H100 80GB HBM3", SUM, 8),
    ),
}
ONE, *OTHERS = PROGRAMS


def needs_compiler(module):
    """Skips where a compiler is not installed."""
    if find_spec(module) is None:
        pytest.skip(f"{module} is not here: nox -s accelerators")


def python(*arguments):
    """What Python prints, in a process as a user's is."""
    users = {key: value for key, value in os.environ.items() if key not in OF_TESTS}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=users | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def planned(name):
    """What `planned.py` tells of a program."""
    slice_name, settings, *_ = PROGRAMS[name]
    return json.loads(python(SCRIPT, slice_name, json.dumps(settings)))


@pytest.mark.parametrize(
    "name", [ONE, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)]
)
def test_a_training_fits_sends_nothing_while_it_plays_and_is_updated_in_place(name):
    slice_name, _, mesh, kinds, gradient_steps = PROGRAMS[name]
    on_gpu = slice_name.endswith("h100")
    needs_compiler("jax_cuda13_plugin" if on_gpu else "libtpu")
    found = planned(name)
    assert found["lines"][0].endswith(f"  {mesh}")
    assert 0 < found["bytes"] < found["memory"]
    assert found["kinds"] == kinds
    assert found["times"] == (gradient_steps if kinds else 0) < STEPS
    cost = "kernels an update" if on_gpu else "cycles of a device an update"
    assert any(cost in line for line in found["lines"])
    assert found["float64"] == []
    assert found["host"] == []
    assert found["in_place"] == found["arrays"]
    # A step moves the history into fast memory to write one position, and back: no copy more.
    assert found["copies_of_history"] <= 2 * STEPS


@pytest.mark.nightly
def test_a_composed_trainer_is_planned_as_the_page_says():
    needs_compiler("libtpu")
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    plan = python("-c", block)
    assert "data=4: 4 x TPU v4\n" in plan
    assert " of 32 GiB on each device" in plan
