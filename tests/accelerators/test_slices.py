"""The slices that `--target` names, and meshes on them. Nothing is compiled."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("libtpu")

MESHES = (
    *(("v4-8", "auto"), ("v4-128", "data=32,fsdp=2"), ("v4-8", "data=3"), ("v5e-8", "auto")),
    *(("v5e-1", "auto"), ("v6e-16", "auto"), ("v5p-64", "auto"), ("tpu7x-16", "auto")),
    *(("2xv4-8", "auto"), ("2xv4-8", "data=2,fsdp=4"), ("2xv4-8", "data=1,fsdp=8")),
    *(("3xv5e-4", "data=6,fsdp=2"), ("1xv4-8", "auto"), ("v4-64", "data=64")),
)
SCRIPT = f"""
import json
import hackmatrix_rl as hm
from hackmatrix_rl.system import memory_limit

for name, mesh in {MESHES}:
    try:
        slice_ = hm.target(name)
        made = hm.mesh(mesh, slice_.devices).devices
    except ValueError as error:
        print(json.dumps([name, mesh, str(error)]))
    else:
        slices = [getattr(each, "slice_index", 0) for each in made[:, 0]]
        memory = slice_.memory == memory_limit(slice_.devices[0])
        hosts = len({{each.process_index for each in slice_.devices}})
        known = slice_.hosts == hosts  # without the compiler
        print(json.dumps([name, mesh, [made.size, hosts, slices, memory and known]]))
"""


@pytest.fixture(scope="module")
def made():
    """What becomes of each mesh, in a process of its own as a user's would be."""
    users = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=users | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {(name, mesh): found for name, mesh, found in map(json.loads, told.stdout.splitlines())}


def test_slices_have_the_devices_and_hosts_of_their_names(made):
    assert made["v4-8", "auto"] == [4, 1, [0] * 4, True]
    assert made["v5e-8", "auto"] == [8, 1, [0] * 8, True]
    assert made["v4-128", "data=32,fsdp=2"] == [64, 16, [0] * 32, True]
    assert made["v5e-1", "auto"] == [1, 1, [0], True]
    assert made["v6e-16", "auto"] == [16, 4, [0] * 16, True]
    assert made["v5p-64", "auto"] == [32, 8, [0] * 32, True]
    assert made["tpu7x-16", "auto"] == [16, 2, [0] * 16, True]


def test_several_slices_lie_along_data(made):
    assert made["2xv4-8", "auto"] == [8, 2, [0] * 4 + [1] * 4, True]
    assert made["2xv4-8", "data=2,fsdp=4"] == [8, 2, [0, 1], True]
    assert made["3xv5e-4", "data=6,fsdp=2"] == [12, 3, [0, 0, 1, 1, 2, 2], True]


@pytest.mark.parametrize(
    ("name", "mesh", "said"),
    [
        ("v4-8", "data=3", "data=3: no 3 of these TPUs form a block"),
        ("v4-64", "data=64", "needs 64 devices, but there are 32 tpu devices"),
        ("2xv4-8", "data=1,fsdp=8", "there are 2 slices, and only data can span slices"),
        ("1xv4-8", "auto", "--target 1xv4-8: unknown. Use v4-8 to v4-1024"),
    ],
)
def test_what_no_slice_can_do_is_refused_in_one_line(made, name, mesh, said):
    assert said in made[name, mesh]
    assert "\n" not in made[name, mesh]
