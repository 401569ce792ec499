"""Which device computes, and `--deterministic`: what is set, what is refused."""

import logging
import os
import subprocess
import sys
from fnmatch import filter
from functools import partial

import jax
import pytest
from processes import python

from hackmatrix_rl.system import make_deterministic, select_device, unseen_accelerator, why_device
from hackmatrix_rl.system._devices import GPU_FLAG
from hackmatrix_rl.system.errors import ConfigError


@pytest.mark.parametrize(
    ("sign", "extra"),
    [
        *(("/dev/nvidia1", "cuda"), ("/proc/driver/nvidia/version", "cuda"), ("/dev/dxg", "cuda")),
        *(("/dev/accel0", "tpu"), ("/dev/vfio/3", "tpu")),
    ],
)
def test_hardware_that_jax_cannot_see_is_named_with_its_extra(monkeypatch, sign, extra):
    monkeypatch.setattr("hackmatrix_rl._plugins.glob", partial(filter, [sign]))
    advice = unseen_accelerator("cpu")
    assert advice is not None
    assert f"pip install '.[{extra}]'" in advice


def test_the_device_of_a_cpu_is_the_cpu_another_is_refused_and_no_advice_is_needed():
    assert unseen_accelerator("cpu", present=lambda kind: False) is None
    assert unseen_accelerator("gpu", present=lambda kind: True) is None
    assert select_device("cpu") == select_device("auto") == "cpu"
    with pytest.raises(ConfigError, match=r"--device tpu .*JAX sees no TPU here, only cpu"):
        select_device("tpu")


@pytest.mark.parametrize(
    ("chosen", "best", "line"),
    [
        ("tpu", "tpu", "Computing on the TPU, the first choice"),
        ("gpu", "gpu", "Computing on the GPU: JAX sees no TPU here"),
        ("cpu", "cpu", "Computing on the CPU: JAX sees no TPU and no GPU here"),
        ("cpu", "gpu", "Computing on the CPU, as --device or --preset says; there is a GPU too"),
    ],
)
def test_it_is_said_what_is_computed_on_and_why(chosen, best, line):
    assert why_device(chosen, best) == line


def on_a_gpu(monkeypatch, started=True):
    monkeypatch.setattr("hackmatrix_rl.system._devices.backend_started", lambda: started)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")


def test_before_jax_starts_the_flag_is_added_to_those_that_are_there(monkeypatch):
    on_a_gpu(monkeypatch, started=False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    make_deterministic()
    assert os.environ["XLA_FLAGS"] == f"--xla_a=1 {GPU_FLAG}=true"
    on_a_gpu(monkeypatch, started=True)
    make_deterministic()  # all is as it has to be
    assert os.environ["XLA_FLAGS"] == f"--xla_a=1 {GPU_FLAG}=true"


def test_what_comes_too_late_or_asks_for_the_opposite_is_refused_with_what_to_do(monkeypatch):
    on_a_gpu(monkeypatch)
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    with pytest.raises(ConfigError, match=r"--deterministic: JAX has started .* Set XLA_FLAGS="):
        make_deterministic()
    monkeypatch.setenv("XLA_FLAGS", f"{GPU_FLAG}=false")
    with pytest.raises(ConfigError, match=r"Remove it from XLA_FLAGS"):
        make_deterministic()


def test_a_generator_whose_numbers_may_differ_is_refused(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    before = jax.config.jax_default_prng_impl
    jax.config.update("jax_default_prng_impl", "rbg")
    try:
        with pytest.raises(ConfigError, match="JAX_DEFAULT_PRNG_IMPL"):
            make_deterministic()
    finally:
        jax.config.update("jax_default_prng_impl", before)


def test_the_compiler_knows_the_flag():
    # An unknown flag ends the process.
    program = "import jax.numpy as jnp; print(jnp.ones(2).sum())"
    python("-c", program, XLA_FLAGS=f"{GPU_FLAG}=true", JAX_PLATFORMS="cpu")


# A CUDA plugin without cuDNN, as the extra gpu-plan installs it.
PLUGIN = """
def initialize():
    raise RuntimeError("Unable to load cuDNN.")
"""
DEVICES = """
import hackmatrix_rl._plugins as plugins
plugins.glob = lambda pattern: []
import jax
jax.devices()
"""


def test_a_plugin_without_cuda_is_silent_on_a_machine_without_a_gpu(tmp_path):
    plugin = tmp_path / "jax_plugins" / "xla_cuda13"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(PLUGIN)
    environment = {name: each for name, each in os.environ.items() if name != "JAX_PLATFORMS"}
    printed = subprocess.run(
        [sys.executable, "-c", DEVICES],
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Unable to load cuDNN" not in printed.stderr


@pytest.mark.parametrize(
    ("plugin", "signs", "printed"),
    [
        ("jax_plugins.xla_cuda13", [], False),
        ("jax_plugins.xla_cuda13", ["/dev/nvidia0"], True),
        ("jax_plugins.other", [], True),
    ],
)
def test_errors_of_hardware_that_is_there_are_printed(monkeypatch, plugin, signs, printed):
    monkeypatch.setattr("hackmatrix_rl._plugins.glob", lambda pattern: signs)
    logger = logging.getLogger("jax._src.xla_bridge")
    error = logger.makeRecord(logger.name, logging.ERROR, "", 0, "calling %s", (plugin,), None)
    assert bool(logger.filter(error)) == printed
