"""Exports an agent as ONNX, with operators for each primitive of JAX."""

import jax

from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.export._contract import contract
from hackmatrix_rl.runs.export._onnx_graph import Graph
from hackmatrix_rl.runs.export._onnx_primitives import Converter
from hackmatrix_rl.runs.export._program import program_of


def as_onnx(agent: PolicyAgent, environment: Environment) -> bytes:
    """The network and the encoding of the observation as a graph for batches of any size.

    The inputs are the arrays of the observation, named as in the contract, the `mask`, and the
    `carry` of a network with memory. The outputs are `logits`, which are -inf where the mask is
    false, `value` in units of reward, and `next_carry`. The model's metadata has the contract as
    JSON, under `contract`.
    """
    graph = Graph()
    program = program_of(agent, environment)
    function, shapes = program.batched()
    traced = jax.make_jaxpr(function)(*shapes)
    inputs = [graph.input(name, each.shape, each.dtype) for name, each in program.inputs.items()]
    outputs = Converter(graph, inputs).converted(traced)
    for name, value, aval in zip(program.outputs, outputs, traced.out_avals, strict=True):
        graph.output(name, graph.cast(value, aval.dtype), aval.shape[1:], aval.dtype)
    return graph.serialized(contract(agent, environment))
