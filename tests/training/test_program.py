"""How the training program is compiled, and what depends on versions."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import compiling
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from agent.probes import make_trainer
from program_counts import program_counts

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import Dense
from hackmatrix_rl.evaluation import RandomAgent, play_steps
from hackmatrix_rl.system import (
    cpu_options,
    gpu_options,
    quick_options,
    untested_version,
    wandb_timeouts,
)
from hackmatrix_rl.system._compatibility import CPU_OPTIONS, GPU_OPTIONS, GPU_VERSIONS
from hackmatrix_rl.training import compiler_options

TUNED = "0.10.2"
UNKNOWN = "0.999.0"
ROOT = Path(__file__).parents[2]


def test_whoever_wants_programs_compiled_quickly_has_the_last_word(monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.training._program.cpu_options", lambda **_: {"some": "1"})
    assert compiler_options(hm.mesh("data=2")) == {}
    with compiling.optimized():
        assert compiler_options(hm.mesh("data=2")) == {"some": "1"}


def test_least_time_is_spent_on_compiling_what_runs_once():
    level = "xla_backend_optimization_level"
    assert cpu_options(TUNED, once=True)[level] < cpu_options(TUNED)[level]


@pytest.mark.usefixtures("optimized")
def test_other_programs_get_the_options_that_change_no_bit(monkeypatch):
    assert quick_options(TUNED) == {"xla_backend_optimization_level": "1"}
    assert quick_options(UNKNOWN) == {}
    monkeypatch.setattr("hackmatrix_rl.system._quickly.quick_options", lambda: {"no_such": "1"})
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such"):
        hm.evaluate(RandomAgent(), hm.CartPole(), episodes=2, key=jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such"):
        next(play_steps(RandomAgent(), hm.CartPole(), jax.random.key(0)))

    def weight(key):
        return Dense(3, 5, gain=1.0, key=key).weight

    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such"):
        weight(jax.random.key(0))
    jax.jit(weight)(jax.random.key(0))  # an option is for a whole program


def test_a_version_that_was_not_tested_gets_the_compilers_own_options_and_a_line():
    assert cpu_options(UNKNOWN) == cpu_options(UNKNOWN, once=True) == gpu_options(UNKNOWN) == {}
    assert UNKNOWN in untested_version("cpu", UNKNOWN)
    assert not any(untested_version("cpu", version) for version in CPU_OPTIONS)
    for version in (UNKNOWN, "0.8.0", "0.12.1", "0.12.0.1.dev2"):
        assert gpu_options(version) == {}
        assert "pip install 'jax[cuda13]<=" in untested_version("gpu", version)
    for version in (*GPU_VERSIONS, "0.10.2", "0.11.2"):
        assert gpu_options(version) == GPU_OPTIONS
        assert untested_version("gpu", version) is None


def test_the_extras_bring_no_version_whose_gpu_options_are_unknown():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    first, last = GPU_VERSIONS
    assert extras["cuda"] == [f"jax[cuda13]>={first},<={last}"]
    assert extras["gpu-plan"] == [f"jax-cuda13-plugin>={first},<={last}; sys_platform == 'linux'"]


def test_a_gpu_that_is_here_has_its_loops_in_graphs_of_kernels(monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.training._program.gpu_options", lambda: {"some": "1"})
    gpu = SimpleNamespace(devices=np.array([SimpleNamespace(platform="gpu")]))
    expected = {False: {"some": "1", "xla_gpu_autotune_level": "0"}, True: {"some": "1"}}
    with compiling.optimized():
        for here, options in expected.items():
            monkeypatch.setattr("hackmatrix_rl.training._program.is_here", lambda _, it=here: it)
            assert compiler_options(gpu) == options
    kinds = GPU_OPTIONS["xla_gpu_enable_command_buffer"].split(",")
    assert {"WHILE", "CONDITIONAL", "FUSION"} <= set(kinds)
    assert "COLLECTIVES" not in kinds


def test_no_option_leaves_out_what_other_passes_rely_on():
    # XLA's emitters for CPUs know no barriers: a program that keeps one ends the process.
    for options in CPU_OPTIONS.values():
        assert "cse_barrier_expander" not in str(options.get("xla_disable_hlo_passes"))


@pytest.mark.usefixtures("optimized")
@pytest.mark.skipif(not cpu_options(), reason="this version compiles with XLA's own options")
def test_a_long_reduction_is_one_loop():
    lowered = jax.jit(lambda numbers: jnp.sum(numbers * 3)).lower(jnp.zeros(5000, jnp.int32))
    compiled = lowered.compile(compiler_options(hm.mesh("data=1")))
    assert program_counts(compiled).fusions == 1


@pytest.mark.usefixtures("optimized")
def test_the_options_are_those_of_every_program_of_the_trainer(monkeypatch):
    refused = {"no_such_option": "1"}
    monkeypatch.setattr("hackmatrix_rl.training._program.cpu_options", lambda **_: refused)
    trainer = make_trainer(probes.value_only())
    for act in (trainer.compile, lambda: trainer.start(jax.random.key(0))):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
            act()


def test_the_versions_stand_in_order():
    def numbers(version):
        return tuple(map(int, version.split(".")))

    assert list(CPU_OPTIONS) == sorted(CPU_OPTIONS, key=numbers)


def test_wandb_is_told_only_of_the_limits_that_its_version_has():
    class Older:
        init_timeout: float

    class Newer(Older):
        finish_timeout: float

    assert wandb_timeouts(Older, seconds=3) == {"init_timeout": 3}
    assert wandb_timeouts(Newer, seconds=3) == {"init_timeout": 3, "finish_timeout": 3}
