"""How the training program is compiled."""

import compiling
import jax
import pytest
from agent import probes
from agent.probes import make_trainer

import hackmatrix_rl as hm
from hackmatrix_rl.training.program import compiler_options


def test_whoever_wants_programs_compiled_quickly_has_the_last_word():
    with compiling.quickly():
        assert compiler_options(hm.mesh("data=2")) == {}


def test_least_time_is_spent_on_compiling_what_runs_once():
    level = "xla_backend_optimization_level"
    mesh = hm.mesh("data=2")
    assert compiler_options(mesh, once=True)[level] < compiler_options(mesh)[level]


def test_the_options_are_those_of_every_program_of_the_trainer(monkeypatch):
    refused = {"no_such_option": 1}
    assert compiler_options(hm.mesh("data=2")) != {}
    monkeypatch.setattr("hackmatrix_rl.training.trainer.compiler_options", lambda *_, **__: refused)
    trainer = make_trainer(probes.value_only())
    for act in (trainer.compile, lambda: trainer.start(jax.random.key(0))):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
            act()
