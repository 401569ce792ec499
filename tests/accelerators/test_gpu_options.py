"""Whether a GPU's compiler takes the options that its programs get. No GPU is needed."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding

from hackmatrix_rl.system import (
    ACCELERATORS,
    GPUS,
    gpu_options,
    memory_limit,
    multiprocessors,
    target,
    untested_version,
)
from hackmatrix_rl.training import compiler_options
from hackmatrix_rl.training.sharding import REPLICATED, mesh

from .test_programs import needs_compiler


@pytest.mark.parametrize("name", GPUS)
def test_a_compiler_takes_the_description_of_a_gpu(name):
    needs_compiler("jax_cuda13_plugin")
    (device,) = target(name).devices
    known = ACCELERATORS[device.device_kind]
    assert multiprocessors(device) == device.core_count == known.multiprocessors
    assert memory_limit(device) == known.memory
    there = NamedSharding(mesh("data=1", [device]), REPLICATED)
    shape = jax.ShapeDtypeStruct((64, 64), jnp.bfloat16, sharding=there)
    assert jax.jit(lambda x: x @ x).lower(shape).compile().memory_analysis() is not None


@pytest.mark.nightly
def test_the_options_are_taken_and_wrong_ones_are_refused():
    needs_compiler("jax_cuda13_plugin")
    assert untested_version("gpu") is None
    device = mesh("data=1", target("h100").devices)
    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(device, REPLICATED))

    def grow(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) < 1e9, lambda x: x @ x, x)

    options = compiler_options(device)
    assert gpu_options().items() <= options.items()
    lowered = jax.jit(grow).lower(shape)
    lowered.compile(options)
    with pytest.raises(jax.errors.JaxRuntimeError, match="WHILEX"):
        lowered.compile({**options, "xla_gpu_enable_command_buffer": "WHILEX"})
