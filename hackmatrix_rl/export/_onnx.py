"""An agent as ONNX: the layers of its network as a graph."""

import json
from typing import Any

import jax
import numpy as np

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.export._contract import contract, exported_network
from hackmatrix_rl.export._json import layers_of

# Not the newest ones: every runtime of the last years knows them.
_OPSET, _IR = 17, 8
_BATCH = "batch"


def as_onnx(agent: PolicyAgent, environment: HackMatrix) -> bytes:
    """The network as a graph of a batch of any size.

    Its inputs are the features that `EnvSpec.encode` makes of an observation, `grid` and `flat`,
    the `mask`, and for a network with a memory its `carry`. Its outputs are `logits`, which are
    -inf where the mask is false, `value` in units of reward, and the `next_carry`. The model's
    metadata hold the contract as JSON, under `contract`.

    Raises:
        ConfigError: the network is not exported, its value is no number of one layer, the units of
            its value are compressed, or the package onnx is missing.
    """
    name, network = exported_network(agent.policy)
    layers = layers_of(agent)
    try:
        import onnx  # belongs to an extra
    except ImportError as error:
        raise ConfigError(
            "--format onnx needs the package onnx, which is not installed. Install the export "
            "extra: pip install '.[export]'"
        ) from error
    features = jax.eval_shape(environment.spec.encode, environment.spec.observation)
    assert features.grid is not None  # HackMatrix has a board
    graph = _Graph(onnx)
    grid = graph.input("grid", features.grid.shape)
    flat = graph.input("flat", features.flat.shape)
    mask = graph.input("mask", (environment.spec.num_actions,), bool)
    if name == "cells":
        grid = graph.relu(graph.dense(grid, layers["cell"]))
    hidden = graph.add("Concat", graph.add("Flatten", grid, axis=1), flat, axis=1)
    if name == "gru":
        carry = graph.input("carry", network.initial_carry().shape)
        hidden = _gru(graph, layers, graph.relu(graph.dense(hidden, layers["embed"])), carry)
        graph.output("next_carry", hidden, network.initial_carry().shape)
    else:
        for layer in layers["dense"]:
            hidden = graph.relu(graph.dense(hidden, layer))
    logits = graph.dense(hidden, layers["policy"])
    legal = graph.add("Where", mask, logits, graph.constant(np.float32(-np.inf)))
    of_each = graph.dense(hidden, layers["value"])
    value = graph.add("Squeeze", of_each, graph.constant(np.array([1], np.int64)))
    graph.output("logits", legal, (environment.spec.num_actions,))
    graph.output("value", value, ())
    return graph.serialized(contract(agent, environment))


def _gru(graph: "_Graph", layers: dict[str, Any], embedded: str, carry: str) -> str:
    """The next memory of a gated recurrent unit, which is also its output."""
    inwards = graph.split(graph.dense(embedded, layers["inwards"]), 3)
    before = graph.split(graph.dense(carry, layers["recurrent"]), 3)
    reset, update = (
        graph.add("Sigmoid", graph.add("Add", inwards[gate], before[gate])) for gate in (0, 1)
    )
    remembered = graph.add("Mul", reset, before[2])
    candidate = graph.add("Tanh", graph.add("Add", inwards[2], remembered))
    # candidate + update * (carry - candidate)
    change = graph.add("Mul", update, graph.add("Sub", carry, candidate))
    return graph.add("Add", candidate, change)


class _Graph:
    """A graph of ONNX that is being built; its values are known by their names."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> str:
        """A named input, with an axis of the batch before its shape."""
        self._inputs.append(self._described(name, shape, dtype))
        return name

    def output(self, name: str, value: str, shape: tuple[int, ...]) -> None:
        """Gives a value a name among the outputs."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._described(name, shape, np.float32))

    def constant(self, array: np.ndarray | np.generic) -> str:
        """An array of the model."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *values: str, **attributes: Any) -> str:
        """The result of an operator."""
        return self._new(kind, values, 1, attributes)[0]

    def split(self, value: str, parts: int) -> list[str]:
        """Equal parts along the last axis of a batch of vectors."""
        return self._new("Split", (value,), parts, {"axis": 1})

    def dense(self, value: str, layer: dict[str, np.ndarray]) -> str:
        """An affine map of the last axis."""
        product = self.add("MatMul", value, self.constant(layer["weight"]))
        return self.add("Add", product, self.constant(layer["bias"]))

    def relu(self, value: str) -> str:
        """A rectifier."""
        return self.add("Relu", value)

    def serialized(self, about: dict[str, Any]) -> bytes:
        """The model, with this contract in its metadata."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "agent", self._inputs, self._outputs, self._constants
        )
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="hackmatrix-rl")
        model.ir_version = _IR
        helper.set_model_props(model, {"contract": json.dumps(about)})
        self._onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _new(
        self, kind: str, values: tuple[str, ...], count: int, attributes: dict[str, Any]
    ) -> list[str]:
        names = [f"{kind}_{len(self._nodes)}_{each}" for each in range(count)]
        self._nodes.append(self._onnx.helper.make_node(kind, [*values], names, **attributes))
        return names

    def _described(self, name: str, shape: tuple[int, ...], dtype: type) -> Any:
        helper = self._onnx.helper
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, [_BATCH, *shape])
