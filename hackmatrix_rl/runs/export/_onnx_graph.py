"""Builds an ONNX graph. Values are referred to by name."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hackmatrix_rl.system import require

# The first opset with bitwise operators, which older runtimes also support.
_OPSET, _IR = 18, 8
BATCH = "batch"
"""The name of the dynamic batch axis."""

Name = str


class Graph:
    """Nodes, constants, inputs and outputs."""

    def __init__(self) -> None:
        self._onnx: Any = require("onnx", extra="export", caller="this format")
        self._nodes: list[Any] = []
        self._count = 0
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: Name, shape: Sequence[Any], dtype: Any) -> Name:
        """Adds an input, with the batch axis before its shape."""
        self._inputs.append(self._described(name, dtype, [BATCH, *shape]))
        return name

    def output(self, name: Name, value: Name, shape: Sequence[Any], dtype: Any) -> None:
        """Adds a value as a named output."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._described(name, dtype, [BATCH, *shape]))

    def constant(self, value: Any, dtype: Any = None) -> Name:
        """A constant; equal constants are stored once."""
        array = np.asarray(value, dtype)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = self._onnx.numpy_helper.from_array(array, name)
        found: Name = self._constants[key].name
        return found

    def add(self, kind: str, *values: Name, **attributes: Any) -> Name:
        """The result of an operator."""
        return self.several(kind, *values, results=1, **attributes)[0]

    def several(self, kind: str, *values: Name, results: int, **attributes: Any) -> list[Name]:
        """The results of an operator with several results."""
        names = self._fresh(kind, results)
        self._nodes.append(self._onnx.helper.make_node(kind, [*values], names, **attributes))
        return names

    def cast(self, value: Name, dtype: Any) -> Name:
        return self.add("Cast", value, to=self._type(dtype))

    def loop(
        self,
        length: int | None,
        condition: Name,
        state: Sequence[Name],
        dtypes: Sequence[Any],
        body: Callable[[Name, list[Name]], tuple[Name, list[Name], list[tuple[Name, Any]]]],
    ) -> list[Name]:
        """The final state of a loop, and the stacked outputs of its iterations.

        Args:
            length: maximum number of iterations; `None` for no limit.
            condition: whether there is a first iteration.
            state: the initial state.
            dtypes: the dtypes of the state.
            body: maps the number of an iteration and the state to whether to continue, the next
                state, and the outputs of the iteration with their dtypes.
        """
        outside, self._nodes = self._nodes, []
        (number,), (before,) = self._fresh("iteration", 1), self._fresh("again", 1)
        inside = self._fresh("state", len(state))
        again, after, given = body(number, inside)
        results = [(again, bool), *zip(after, dtypes, strict=True), *given]
        # Outputs of a body must be distinct values that the body computes.
        named = [(self.add("Identity", value), dtype) for value, dtype in results]
        described = [
            self._described(number, np.int64, []),
            self._described(before, bool, []),
            *(self._described(*each) for each in zip(inside, dtypes, strict=True)),
        ]
        graph = self._onnx.helper.make_graph(
            self._nodes, "body", described, [self._described(*each) for each in named]
        )
        self._nodes = outside
        limit = "" if length is None else self.constant(length, np.int64)
        results_count = len(state) + len(given)
        return self.several("Loop", limit, condition, *state, results=results_count, body=graph)

    def serialized(self, about: dict[str, Any]) -> bytes:
        """The model, with the contract `about` in its metadata."""
        helper = self._onnx.helper
        nodes = self._needed()
        used = {name for node in nodes for name in _names(node)}
        constants = [each for each in self._constants.values() if each.name in used]
        graph = helper.make_graph(nodes, "agent", self._inputs, self._outputs, constants)
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="hackmatrix-rl")
        model.ir_version = _IR
        helper.set_model_props(model, {"contract": json.dumps(about)})
        self._onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _needed(self) -> list[Any]:
        names = {each.name for each in self._outputs}
        found = []
        for node in reversed(self._nodes):
            if names & {*node.output}:
                found.append(node)
                names |= _names(node)
        return found[::-1]

    def _fresh(self, kind: str, count: int) -> list[Name]:
        self._count += 1
        return [f"{kind}_{self._count}_{each}" for each in range(count)]

    def _type(self, dtype: Any) -> int:
        kind: int = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return kind

    def _described(self, name: Name, dtype: Any, shape: Sequence[Any] | None = None) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(dtype), shape)


def _names(node: Any) -> set[Name]:
    """The values that a node or its body reads."""
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    read = {name for body in bodies for inner in body.node for name in _names(inner)}
    return read | {*node.input}
