"""Exports an agent as StableHLO with `jax.export`; only JAX runs it."""

import jax
from jax import export

from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.export._program import program_of
from hackmatrix_rl.system import require

PLATFORMS = ("cpu", "cuda", "tpu")


def as_stablehlo(agent: PolicyAgent, environment: Environment) -> bytes:
    """The network as a program for batches of any size.

    Its arguments are the arrays of the observation in the order of the contract, the mask, and the
    carry of a network with memory. It returns the masked logits, the value, and the next carry.
    """
    require("flatbuffers", extra="export", caller="this format")
    function, shapes = program_of(agent, environment).batched()
    program = export.export(jax.jit(function), platforms=PLATFORMS)(*shapes)
    return bytes(program.serialize())
