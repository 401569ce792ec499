"""Gradient steps in parts: the same steps, in less memory."""

import jax
import numpy as np
import optax
import pytest
from agent import probes
from training.states import arrays

from hackmatrix_rl.algorithms.r2d2 import Prioritized

from .building import trainer

TRUNCATES = probes.truncation()


def learned(parts, mesh=None):
    """A trainer after four updates with gradient steps, and what they reported.

    Plain descent: a gradient that is twice as large takes a step that is twice as long.
    """
    found = trainer(
        TRUNCATES,
        grad_accum=parts,
        mesh=mesh,
        sampling=Prioritized(),
        optimizer=optax.sgd(1.0),
        learning_rate=0.1,
    )
    found.start(jax.random.key(1))
    metrics = found.dispatch(6)
    assert metrics.learning["gradient_steps"] == 8
    return found, metrics


@pytest.fixture(scope="module")
def whole():
    """The same without parts, on one device."""
    return learned(1)


@pytest.mark.parametrize(("parts", "mesh"), [(2, None), (16, None), (4, "data=2")])
def test_parts_come_to_the_whole(whole, parts, mesh):
    """Network, target, games, buffer and priorities; only the rounding differs."""
    found, metrics = learned(parts, mesh)
    assert found.mesh.size == (2 if mesh else 1)
    for a, b in zip(arrays(found.state), arrays(whole[0].state), strict=True):
        if np.issubdtype(a.dtype, np.floating):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
        else:
            np.testing.assert_array_equal(a, b)
    assert metrics.learning == pytest.approx(whole[1].learning, rel=1e-3)


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
