"""How the training program is compiled."""

import compiling
import jax
import jax.numpy as jnp
import pytest
from agent import probes
from agent.probes import make_trainer

import hackmatrix_rl as hm
from hackmatrix_rl.game.bits import kept
from hackmatrix_rl.game.random import mix
from hackmatrix_rl.training.program import compiler_options
from hackmatrix_rl.training.program_counts import program_counts


def test_whoever_wants_programs_compiled_quickly_has_the_last_word():
    with compiling.quickly():
        assert compiler_options(hm.mesh("data=2")) == {}


def test_least_time_is_spent_on_compiling_what_runs_once():
    level = "xla_backend_optimization_level"
    mesh = hm.mesh("data=2")
    assert compiler_options(mesh, once=True)[level] < compiler_options(mesh)[level]


def test_what_is_kept_is_worked_out_once():
    def program(numbers):
        hashed = kept(mix(mix(numbers)))
        return hashed + jnp.uint32(1), hashed[::-1]

    lowered = jax.jit(program).lower(jnp.zeros(1000, jnp.uint32))
    compiled = lowered.compile(compiler_options(hm.mesh("data=1")))
    assert compiled.as_text().count(" multiply(") == 4


def test_a_long_reduction_is_one_loop():
    lowered = jax.jit(lambda numbers: jnp.sum(numbers * 3)).lower(jnp.zeros(5000, jnp.int32))
    compiled = lowered.compile(compiler_options(hm.mesh("data=1")))
    assert program_counts(compiled).fusions == 1


def test_the_options_are_those_of_every_program_of_the_trainer(monkeypatch):
    refused = {"no_such_option": 1}
    assert compiler_options(hm.mesh("data=2")) != {}
    monkeypatch.setattr("hackmatrix_rl.training.trainer.compiler_options", lambda *_, **__: refused)
    trainer = make_trainer(probes.value_only())
    for act in (trainer.compile, lambda: trainer.start(jax.random.key(0))):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
            act()
