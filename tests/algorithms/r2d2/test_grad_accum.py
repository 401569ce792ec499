"""Gradient steps in parts take less memory (training/test_gradient_step.py: and are the same)."""

import jax
import pytest
from agent import probes

from .building import trainer

TRUNCATES = probes.truncation()


def test_parts_take_less_memory():
    """A gradient step keeps the hidden layers of one part only."""

    def needs(parts):
        large = {"sequence_length": 16, "sequence_batch_size": 512, "buffer_size": 8 * 32}
        found = trainer(TRUNCATES, grad_accum=parts, **large)
        found.start(jax.random.key(0))
        return found.program_memory()

    assert needs(16) < 0.5 * needs(1)


@pytest.mark.parametrize(
    ("mesh", "parts", "says"),
    [
        (None, 3, "grad_accum 3 does not divide the 16 sequences.*use grad_accum=1, 2, 4, 8 or 16"),
        (None, 0, "grad_accum must be at least 1, not 0"),
        ("data=2", 16, "the 8 sequences that each device has.*use grad_accum=1, 2, 4 or 8"),
        ("data=8", 4, "the 2 sequences that each device has.*use grad_accum=1 or 2"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(mesh, parts, says):
    with pytest.raises(ValueError, match=says):
        trainer(TRUNCATES, grad_accum=parts, mesh=mesh)
