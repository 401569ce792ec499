"""What is seen of a run while it goes on: versions, usage, profile, health."""

import json
import os
import subprocess
from types import SimpleNamespace

import jax
import jax.numpy as jnp

from hackmatrix_rl.runs import _versions
from hackmatrix_rl.runs._monitor import Profiler
from hackmatrix_rl.runs._versions import commit, describe_start, record_start
from hackmatrix_rl.system import Usage
from hackmatrix_rl.system._usage import gpu_utilization
from hackmatrix_rl.training import Metrics


def metrics(updates):
    return Metrics(
        env_steps=10 * updates, updates=updates, seconds=1.0, steps_per_second=10.0, episodes=0
    )


class Device(SimpleNamespace):
    """Stands for an accelerator."""

    platform, local_hardware_id = "gpu", 0

    def memory_stats(self):
        return self.stats


def test_usage_is_of_the_fullest_device_and_of_the_cores_since_the_last_look():
    devices = [
        Device(stats={"bytes_in_use": 10, "peak_bytes_in_use": 70}),
        Device(stats={"bytes_in_use": 30, "peak_bytes_in_use": 40}, local_hardware_id=1),
    ]
    clock, busy = iter([0.0, 10.0]), iter([5.0, 5.0 + 10.0 * len(os.sched_getaffinity(0)) / 4])
    usage = Usage(
        devices,
        utilization=lambda platform, number: {("gpu", 0): 0.5, ("gpu", 1): 1.0}[platform, number],
        clock=lambda: next(clock),
        busy=lambda: next(busy),
    )
    found = usage.read()
    assert found.pop("process_memory_peak_bytes") > 2**20
    assert found == {
        "cpu_utilization": 0.25,
        "device_memory_bytes": 30.0,
        "device_memory_peak_bytes": 70.0,
        "gpu_utilization": 0.75,
    }


def test_what_a_machine_does_not_tell_is_left_out():
    found = Usage([Device(stats=None, platform="cpu")]).read()
    assert set(found) <= {"process_memory_peak_bytes", "cpu_utilization"}


def test_a_gpu_is_asked_through_its_driver_by_the_number_that_the_driver_knows(monkeypatch):
    asked = []

    class Driver:
        def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
            asked.append(index.value)
            return 0

        def nvmlDeviceGetUtilizationRates(self, handle, rates):
            rates._obj.gpu = 40
            return 0

    monkeypatch.setattr("hackmatrix_rl.system._usage._library", Driver)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert gpu_utilization("gpu", 1) == 0.4
    assert asked == [7]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
    assert gpu_utilization("gpu", 1) is None
    assert gpu_utilization("cpu", 0) is None


def trace_files(folder):
    return [path for path in folder.rglob("*") if path.name.endswith((".xplane.pb", ".json.gz"))]


def test_a_profile_is_of_the_updates_after_the_first_dispatch(tmp_path):
    said = []
    with Profiler(3, tmp_path / "profile", report=said.append) as profiler:
        profiler.look(metrics(2))
        for updates in (4, 6, 8, 10):
            jax.jit(lambda x: x + 1.0)(jnp.float32(updates)).block_until_ready()
            profiler.look(metrics(updates))
            assert bool(trace_files(tmp_path)) == (updates >= 6)
    assert said == [f"profiler trace of 4 updates: {tmp_path / 'profile'}"]


def test_a_run_that_ends_early_is_profiled_to_its_end(tmp_path):
    said = []
    with Profiler(100, tmp_path, report=said.append) as profiler:
        profiler.look(metrics(1))
        profiler.look(metrics(2))
    assert "1 updates" in said[0]
    assert trace_files(tmp_path)


def test_a_start_is_described_with_everything_it_may_depend_on(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_something")
    found = describe_start(["hackmatrix-rl", "train"])
    assert {"python", "jax", "jaxlib", "equinox", "optax", "orbax-checkpoint", "numpy"} <= set(
        found["versions"]
    )
    assert found["versions"]["hackmatrix-rl"]
    assert found["versions"]["jax"] == jax.__version__
    assert found["environment"]["XLA_FLAGS"] == "--xla_something"
    assert found["devices"]["platform"] == "cpu"
    assert found["command"] == ["hackmatrix-rl", "train"]


def test_each_start_of_a_run_is_kept_and_what_changed_is_said(tmp_path, monkeypatch):
    file = tmp_path / "versions.json"
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert record_start(file) == []
    assert record_start(file) == []
    monkeypatch.setenv("XLA_FLAGS", "--new")
    assert record_start(file) == ["since the last start, XLA_FLAGS went from none to --new"]
    starts = json.loads(file.read_text())["starts"]
    assert [start["environment"].get("XLA_FLAGS") for start in starts] == [None, None, "--new"]


def test_code_without_a_commit_is_a_release(monkeypatch):
    monkeypatch.setattr(_versions, "commit", lambda folder: None)
    found = describe_start()
    assert found["commit"] == f"release {found['versions']['hackmatrix-rl']}"


def test_code_that_was_changed_since_its_commit_is_marked(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True)

    assert commit(tmp_path) is None
    git("init", "-q")
    (tmp_path / "__init__.py").write_text("")
    assert commit(tmp_path) is None, "not part of the checkout"
    git("add", ".")
    git("commit", "-qm", "first")
    clean = commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "__init__.py").write_text("changed")
    assert commit(tmp_path) == clean + "+"
