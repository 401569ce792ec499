"""The floating-point operations of the products and convolutions in a traced program."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.agent.precision import programs_within
from hackmatrix_rl.system.batching import share_taken

Operations = Mapping[np.dtype[Any], float]
"""Operations by the dtype that is multiplied: the wider one of two."""


def operations(jaxpr: Any) -> Operations | None:
    """The floating-point operations of matrix products and convolutions in a traced program.

    A multiplication and an addition are two operations. Each round of a scan counts, each device
    of a `shard_map`, and what a gradient recomputes. Of a condition the largest branch counts, or
    a mean in the context `taken`. So a sparse first layer counts as the dense layer that it is on
    other devices. `None`: a product stands in a loop without a fixed number of rounds, or in a
    kernel of Pallas.

    Args:
        jaxpr: of the program (`jax.stages.Traced.jaxpr`).
    """
    return _Counter().count(jaxpr)


def operations_of_update(jaxpr: Any) -> Operations | None:
    """`operations` of one update, in the traced program of a dispatch: its loop over updates."""
    (loop,) = (each for each in jaxpr.eqns if each.primitive.name == "while")
    return operations(loop.params["body_jaxpr"])


class _Counter:
    """Counts each program once: those within a program are often the same."""

    def __init__(self) -> None:
        self._known: dict[int, Operations | None] = {}

    def count(self, jaxpr: Any) -> Operations | None:
        program = getattr(jaxpr, "jaxpr", jaxpr)
        if id(program) not in self._known:  # the whole program keeps each of them alive
            self._known[id(program)] = _sum([self._of(each) for each in program.eqns])
        return self._known[id(program)]

    def _of(self, equation: Any) -> Operations | None:
        kind, given = equation.primitive.name, equation.params
        if kind in ("dot_general", "conv_general_dilated"):
            found: list[Operations | None] = [_product(equation)]
        else:
            found = [self.count(each) for each in programs_within(equation)]
        # `jax.vmap` makes a condition two computations, so this is not for conditions alone.
        if all(each == {} for each in found) or (share := share_taken(equation)) == 0:
            return {}
        if kind == "cond":
            if given.get("branches_platforms") is not None:
                found = [each for each in found if each is not None]
            return _of_branches(found, 1.0 if share is None else share)
        total = _sum(found)
        if not total:
            return total
        match kind:
            case "scan":
                return _times(total, given["length"])
            case "shard_map":  # an older JAX has the other name
                axes = given.get("newly_manual_axes", given.get("manual_axes"))
                return _times(total, math.prod(given["mesh"].shape[axis] for axis in axes))
            case "while" | "pallas_call":
                return None
        return total


def _of_branches(branches: Sequence[Operations | None], share: float) -> Operations | None:
    """The mean, if the costliest branch is taken in this share of all cases, else the cheapest."""
    known = [each for each in branches if each is not None]
    if len(known) < len(branches):
        return None
    known.sort(key=lambda each: sum(each.values()))
    return _sum([_times(known[-1], share), _times(known[0], 1.0 - share)])


def _sum(parts: Sequence[Operations | None]) -> Operations | None:
    total: dict[np.dtype[Any], float] = {}
    for part in parts:
        if part is None:
            return None
        for dtype, count in part.items():
            total[dtype] = total.get(dtype, 0.0) + count
    return total


def _times(part: Operations, factor: float) -> Operations:
    return {dtype: factor * count for dtype, count in part.items()}


def _product(equation: Any) -> Operations:
    left, right = (value.aval for value in equation.invars)
    result = equation.outvars[0].aval
    dtype = max(left.dtype, right.dtype, key=lambda each: each.itemsize)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return {}  # a game's
    if equation.primitive.name == "dot_general":
        (summed, _), _ = equation.params["dimension_numbers"]
        return {dtype: 2.0 * result.size * math.prod(left.shape[axis] for axis in summed)}
    return {dtype: 2.0 * _multiplications(equation.params, left, right, result)}


def _multiplications(given: Mapping[str, Any], left: Any, right: Any, result: Any) -> int:
    """The multiplications of a convolution, without those by the padding and between dilations."""
    inputs, weights, outputs = given["dimension_numbers"]
    count = int(result.shape[outputs[0]] * right.shape[weights[0]] * right.shape[weights[1]])
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    for axis, (stride, (before, _), apart, within) in enumerate(
        zip(*(given[name] for name in names), strict=True), start=2
    ):
        places = np.arange(result.shape[outputs[axis]])[:, None] * stride - before
        read = places + np.arange(right.shape[weights[axis]]) * within
        last = (left.shape[inputs[axis]] - 1) * apart
        count *= int(((read >= 0) & (read <= last) & (read % apart == 0)).sum())
    return count
