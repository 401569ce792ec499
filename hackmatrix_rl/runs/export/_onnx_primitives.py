"""Operators of ONNX for the primitives of JAX.

All integers are int64 in the graph, and all floats float32, because runtimes have every operator
for these two. Integers that overflow their dtype in JAX wrap around as they do there.
"""

import string
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jaxtyping import Array

from hackmatrix_rl.runs.export._onnx_graph import Graph, Name
from hackmatrix_rl.runs.export._onnx_in_jax import IN_JAX, Lookup, halved
from hackmatrix_rl.system.errors import ConfigError

Equation = Any
"""A `JaxprEqn`."""

_UNARY = MappingProxyType(
    {
        **{name: name.capitalize() for name in ("abs", "neg", "sign", "floor", "ceil", "exp")},
        **{name: name.capitalize() for name in ("log", "sqrt", "tanh", "sin", "cos", "tan")},
        **{name: name.capitalize() for name in ("asin", "acos", "atan", "sinh", "cosh", "erf")},
        **{name: name.capitalize() for name in ("asinh", "acosh", "atanh")},
        "logistic": "Sigmoid",
    }
)
_BINARY = MappingProxyType(
    {**{name: name.capitalize() for name in ("add", "sub", "mul", "div", "pow")}, "add_any": "Add"}
)
_COMPARISONS = MappingProxyType(
    {**{"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater"}, "ge": "GreaterOrEqual"}
)
_LOGIC = MappingProxyType({"and": "And", "or": "Or", "xor": "Xor", "not": "Not"})
_REDUCTIONS = MappingProxyType(
    {
        **{"reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"},
        **{"reduce_prod": "ReduceProd", "argmax": "ArgMax", "argmin": "ArgMin"},
    }
)
_SCATTERS = MappingProxyType(
    {"scatter": "none", **{f"scatter-{how}": how for how in ("add", "mul", "min", "max")}}
)
_SAME = ("copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision")
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""The parameters that may be the function that a primitive calls."""


class Converter:
    """Adds the operators of a traced function to a graph.

    Args:
        graph: the graph.
        inputs: the inputs of the function. The first axis of the first one is the batch axis.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Name]) -> None:
        self.graph = graph
        self._inputs = inputs
        self._batch: Any = None  # the symbolic size of the batch in JAX
        self._sizes = ""  # the same in the graph, `[1]`

    def converted(self, traced: core.ClosedJaxpr) -> list[Name]:
        """The results of a traced function, called with the inputs."""
        shape = self.graph.add("Shape", self._inputs[0])
        self._sizes = self.graph.add("Slice", shape, *map(self._numbers, ([0], [1])))
        self._batch = traced.in_avals[0].shape[0]
        dtypes = [each.dtype for each in traced.in_avals]
        return self.called(traced, [*map(self._stored, self._inputs, dtypes)])

    def called(self, traced: Any, arguments: Sequence[Name]) -> list[Name]:
        """The results of a traced function, which is inlined."""
        constants = getattr(traced, "consts", ())
        jaxpr = getattr(traced, "jaxpr", traced)
        names = dict(zip(jaxpr.invars, arguments, strict=True))
        names |= zip(jaxpr.constvars, map(self._constant, constants), strict=True)

        def name_of(value: Any) -> Name:
            return self._constant(value.val) if isinstance(value, core.Literal) else names[value]

        for equation in jaxpr.eqns:
            names |= zip(
                equation.outvars,
                self._results(equation, *map(name_of, equation.invars)),
                strict=True,
            )
        return [name_of(each) for each in jaxpr.outvars]

    def _through(self, function: Callable[..., Any], shapes: Any, *arguments: Name) -> list[Name]:
        return self.called(jax.make_jaxpr(function)(*shapes), arguments)

    def _results(self, equation: Equation, *given: Name) -> list[Name]:
        primitive, parameters = equation.primitive.name, equation.params
        handler = getattr(self, f"jax_{primitive}", None)
        if all(0 in each.aval.shape for each in equation.outvars):
            return [self._empty(each.aval) for each in equation.outvars]
        if primitive in _SAME:
            return [*given]
        if handler is not None:
            found = handler(equation, *given)
            return [found] if isinstance(found, Name) else found
        for kind, table in (
            (self._unary, _UNARY),
            (self._binary, _BINARY),
            (self._compared, _COMPARISONS),
            (self._logical, _LOGIC),
            (self._reduced, _REDUCTIONS),
            (self._scattered, _SCATTERS),
        ):
            if primitive in table:
                return [kind(equation, table[primitive], *given)]
        if primitive in IN_JAX:
            return self._through(
                lambda *arrays: IN_JAX[primitive](*arrays, **parameters), _shapes(equation), *given
            )
        inner = next((parameters[name] for name in _INNER if name in parameters), None)
        if inner is None or len(getattr(inner, "jaxpr", inner).invars) != len(given):
            raise ConfigError(
                f"the network computes JAX's {primitive}, which has no operator here. Use --format "
                "stablehlo, which takes every network."
            )
        return self.called(inner, given)

    # Numbers.

    def _constant(self, value: Any) -> Name:
        array = np.asarray(value)
        return self.graph.constant(array, _dtype(array.dtype))

    def _numbers(self, values: Iterable[Any]) -> Name:
        return self.graph.constant([*values], np.int64)

    def _stored(self, value: Name, dtype: Any) -> Name:
        return value if _dtype(dtype) == dtype else self.graph.cast(value, _dtype(dtype))

    def _wrapped(self, value: Name, dtype: Any) -> Name:
        """An integer, wrapped around as in its dtype: int8 130 -> -126, uint8 -1 -> 255."""
        if not jnp.issubdtype(dtype, jnp.integer):
            return value
        bits = np.iinfo(dtype).bits
        half = 0 if jnp.issubdtype(dtype, jnp.unsignedinteger) else 2 ** (bits - 1)
        if half:
            value = self.graph.add("Add", value, self._number(half))
        value = self.graph.add("BitwiseAnd", value, self._number(2**bits - 1))
        return self.graph.add("Sub", value, self._number(half)) if half else value

    def _number(self, value: int) -> Name:
        return self.graph.constant(value, np.int64)

    def _float(self, value: float) -> Name:
        return self.graph.constant(value, np.float32)

    def _unary(self, equation: Equation, kind: str, value: Name) -> Name:
        return self._wrapped(self.graph.add(kind, value), _out(equation).dtype)

    def _binary(self, equation: Equation, kind: str, left: Name, right: Name) -> Name:
        if kind == "Div" and jnp.issubdtype(_out(equation).dtype, jnp.integer):
            right = self._divisor(right)
        return self._wrapped(self.graph.add(kind, left, right), _out(equation).dtype)

    def _divisor(self, value: Name) -> Name:
        """An integer divisor, with -1 instead of 0, at which a runtime may crash."""
        is_zero = self.graph.add("Equal", value, self._number(0))
        return self.graph.add("Where", is_zero, self._number(-1), value)

    def jax_rem(self, equation: Equation, left: Name, right: Name) -> Name:
        whole = jnp.issubdtype(_out(equation).dtype, jnp.integer)
        return self.graph.add("Mod", left, self._divisor(right) if whole else right, fmod=1)

    def _compared(self, equation: Equation, kind: str, *values: Name) -> Name:
        if kind != "Equal" and _is_flag(equation.invars[0].aval.dtype):
            values = tuple(self.graph.cast(each, np.int64) for each in values)
        return self.graph.add(kind, *values)

    def jax_ne(self, equation: Equation, *values: Name) -> Name:
        return self.graph.add("Not", self.graph.add("Equal", *values))

    def _logical(self, equation: Equation, kind: str, *values: Name) -> Name:
        if _is_flag(_out(equation).dtype):
            return self.graph.add(kind, *values)
        return self._wrapped(self.graph.add(f"Bitwise{kind}", *values), _out(equation).dtype)

    def _extreme(self, equation: Equation, kind: str, logical: str, *values: Name) -> Name:
        return self.graph.add(logical if _is_flag(_out(equation).dtype) else kind, *values)

    def jax_max(self, equation: Equation, *values: Name) -> Name:
        return self._extreme(equation, "Max", "Or", *values)

    def jax_min(self, equation: Equation, *values: Name) -> Name:
        return self._extreme(equation, "Min", "And", *values)

    def jax_shift_left(self, equation: Equation, value: Name, by: Name) -> Name:
        return self._wrapped(self._shifted(value, by, "LEFT"), _out(equation).dtype)

    def jax_shift_right_logical(self, equation: Equation, value: Name, by: Name) -> Name:
        dtype = _out(equation).dtype
        bits = self.graph.add("BitwiseAnd", value, self._number(2 ** np.iinfo(dtype).bits - 1))
        return self._wrapped(self._shifted(bits, by, "RIGHT"), dtype)

    def jax_shift_right_arithmetic(self, equation: Equation, value: Name, by: Name) -> Name:
        # ONNX shifts only unsigned words: -5 >> 1 = ((2**40 - 5) >> 1) - (2**40 >> 1) = -3.
        positive = self._number(2**40)
        raised = self._shifted(self.graph.add("Add", value, positive), by, "RIGHT")
        return self.graph.add("Sub", raised, self._shifted(positive, by, "RIGHT"))

    def _shifted(self, value: Name, by: Name, direction: str) -> Name:
        words = [self.graph.cast(each, np.uint64) for each in (value, by)]
        return self.graph.cast(self.graph.add("BitShift", *words, direction=direction), np.int64)

    def jax_convert_element_type(self, equation: Equation, value: Name) -> Name:
        new, old = _out(equation).dtype, equation.invars[0].aval.dtype
        if _dtype(new) != _dtype(old):
            value = self.graph.cast(value, _dtype(new))
        narrower = jnp.issubdtype(old, jnp.integer) and not _holds(new, old)
        return self._wrapped(value, new) if narrower else value

    def jax_rsqrt(self, equation: Equation, value: Name) -> Name:
        return self.graph.add("Reciprocal", self.graph.add("Sqrt", value))

    def jax_log1p(self, equation: Equation, value: Name) -> Name:
        return self.graph.add("Log", self.graph.add("Add", value, self._float(1)))

    def jax_expm1(self, equation: Equation, value: Name) -> Name:
        return self.graph.add("Sub", self.graph.add("Exp", value), self._float(1))

    def jax_round(self, equation: Equation, value: Name) -> Name:
        if equation.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
            return self.graph.add("Round", value)
        up = self.graph.add("Add", self.graph.add("Abs", value), self._float(0.5))
        return self.graph.add("Mul", self.graph.add("Sign", value), self.graph.add("Floor", up))

    def jax_is_finite(self, equation: Equation, value: Name) -> Name:
        odd = self.graph.add("IsNaN", value), self.graph.add("IsInf", value)
        return self.graph.add("Not", self.graph.add("Or", *odd))

    def jax_clamp(self, equation: Equation, least: Name, value: Name, most: Name) -> Name:
        return self.graph.add("Min", self.graph.add("Max", value, least), most)

    def jax_select_n(self, equation: Equation, which: Name, *cases: Name) -> Name:
        return self._selected(equation, which, cases, _out(equation).dtype)

    def _selected(self, equation: Equation, which: Name, cases: Sequence[Name], dtype: Any) -> Name:
        """The case whose number is `which`, a flag or an integer, the first input."""
        is_bool = _is_flag(equation.invars[0].aval.dtype)
        chosen = cases[0]
        for number, case in enumerate(cases[1:], 1):
            here = which if is_bool else self.graph.add("Equal", which, self._number(number))
            chosen = self._where(here, case, chosen, dtype)
        return chosen

    def _where(self, condition: Name, first: Name, second: Name, dtype: Any) -> Name:
        if not _is_flag(dtype):
            return self.graph.add("Where", condition, first, second)
        otherwise = self.graph.add("And", self.graph.add("Not", condition), second)
        return self.graph.add("Or", self.graph.add("And", condition, first), otherwise)

    # Shapes.

    def _size(self, size: Any) -> Name:
        """The size of an axis, `[1]`."""
        if isinstance(size, int | np.integer):
            return self._numbers([int(size)])
        times = size // self._batch
        if times * self._batch != size:
            raise ConfigError(
                f"the network makes an axis of {size}, not a multiple of the batch. Use "
                "--format stablehlo, which takes every network."
            )
        return self.graph.add("Mul", self._sizes, self._numbers([int(times)]))

    def _shaped(self, value: Name, shape: Sequence[Any]) -> Name:
        # At most one axis depends on the batch.
        sizes = [int(size) if isinstance(size, int | np.integer) else -1 for size in shape]
        return self.graph.add("Reshape", value, self._numbers(sizes))

    def jax_reshape(self, equation: Equation, value: Name, *_: Name) -> Name:
        if equation.params.get("dimensions") is not None:
            value = self.graph.add("Transpose", value, perm=[*equation.params["dimensions"]])
        return self._shaped(value, _out(equation).shape)

    def jax_squeeze(self, equation: Equation, value: Name) -> Name:
        return self._shaped(value, _out(equation).shape)

    jax_expand_dims = jax_squeeze

    def jax_broadcast_in_dim(self, equation: Equation, value: Name, *_: Name) -> Name:
        shape, there = _out(equation).shape, equation.params["broadcast_dimensions"]
        before = equation.invars[0].aval.shape
        widened = [1] * len(shape)
        for axis, size in zip(there, before, strict=True):
            widened[axis] = size
        if tuple(widened) != before:
            value = self._shaped(value, widened)
        if tuple(widened) == tuple(shape):
            return value
        # A 1 keeps the size of the axis.
        wanted = [1 if one == size else size for one, size in zip(widened, shape, strict=True)]
        if all(isinstance(size, int | np.integer) for size in wanted):
            return self.graph.add("Expand", value, self._numbers(wanted))
        sizes = self.graph.add("Concat", *map(self._size, wanted), axis=0)
        return self.graph.add("Expand", value, sizes)

    def _empty(self, aval: Any) -> Name:
        """An array without elements, which no operator of shapes could make."""
        sizes = self.graph.add("Concat", *map(self._size, aval.shape), axis=0)
        return self.graph.add("Expand", self._constant(np.zeros(1, aval.dtype)), sizes)

    def jax_dim_as_value(self, equation: Equation) -> Name:
        return self._shaped(self._size(equation.params["dim"]), ())

    def jax_iota(self, equation: Equation, *_: Name) -> Name:
        shape, axis = _out(equation).shape, equation.params["dimension"]
        limit = self._shaped(self._size(shape[axis]), ())
        counted = self.graph.add("Range", self._number(0), limit, self._number(1))
        counted = self._shaped(counted, [-1 if each == axis else 1 for each in range(len(shape))])
        others = [
            self._numbers([1]) if each == axis else self._size(size)
            for each, size in enumerate(shape)
        ]
        spread = self.graph.add("Expand", counted, self.graph.add("Concat", *others, axis=0))
        kind = _dtype(_out(equation).dtype)
        return spread if kind == np.int64 else self.graph.cast(spread, kind)

    def jax_transpose(self, equation: Equation, value: Name) -> Name:
        return self.graph.add("Transpose", value, perm=[*equation.params["permutation"]])

    def jax_concatenate(self, equation: Equation, *values: Name) -> Name:
        return self.graph.add("Concat", *values, axis=equation.params["dimension"])

    def jax_stack(self, equation: Equation, *values: Name) -> Name:
        axis = equation.params["axis"]
        rows = [self.graph.add("Unsqueeze", each, self._numbers([axis])) for each in values]
        return self.graph.add("Concat", *rows, axis=axis)

    def jax_unstack(self, equation: Equation, value: Name) -> list[Name]:
        axis = int(equation.params["axis"])
        places = map(self._number, range(len(equation.outvars)))
        return [self.graph.add("Gather", value, place, axis=axis) for place in places]

    def jax_split(self, equation: Equation, value: Name) -> list[Name]:
        sizes = [int(size) for size in equation.params["sizes"]]
        return self.graph.several(
            "Split", value, self._numbers(sizes), results=len(sizes), axis=equation.params["axis"]
        )

    def jax_slice(self, equation: Equation, value: Name) -> Name:
        given = equation.params
        shape = equation.invars[0].aval.shape
        strides = given["strides"] or [1] * len(shape)
        bounds = zip(given["start_indices"], given["limit_indices"], strides, strict=True)
        cut = {
            axis: bound
            for axis, (bound, size) in enumerate(zip(bounds, shape, strict=True))
            if bound != (0, size, 1)
        }
        if not cut:
            return value
        starts, ends, steps = zip(*cut.values(), strict=True)
        return self.graph.add("Slice", value, *map(self._numbers, (starts, ends, cut, steps)))

    def jax_rev(self, equation: Equation, value: Name) -> Name:
        return self._reversed(value, equation.params["dimensions"])

    def _reversed(self, value: Name, axes: Sequence[Any]) -> Name:
        ends = -1, -(2**62), -1
        starts, stops, steps = ([each] * len(axes) for each in ends)
        return self.graph.add("Slice", value, *map(self._numbers, (starts, stops, axes, steps)))

    def jax_pad(self, equation: Equation, value: Name, filling: Name) -> Name:
        low, high, between = zip(*equation.params["padding_config"], strict=True)
        if any(between):
            raise ConfigError(
                "the network pads between the elements of an array, which has no operator here. "
                "Use --format stablehlo, which takes every network."
            )
        return self.graph.add("Pad", value, self._numbers([*low, *high]), filling)

    # Reductions.

    def _reduced(self, equation: Equation, kind: str, value: Name) -> Name:
        axes = [int(axis) for axis in equation.params["axes"]]
        if _is_flag(equation.invars[0].aval.dtype):
            value = self.graph.cast(value, np.int64)
        if kind.startswith("Arg"):
            return self.graph.add(kind, value, axis=axes[0], keepdims=0)
        # Without axes, the operator would reduce all of them.
        found = self.graph.add(kind, value, self._numbers(axes), keepdims=0) if axes else value
        return self._wrapped(found, _out(equation).dtype)

    def jax_reduce_or(self, equation: Equation, value: Name) -> Name:
        return self._of_bits(equation, "ReduceMax", jnp.bitwise_or, value)

    def jax_reduce_and(self, equation: Equation, value: Name) -> Name:
        return self._of_bits(equation, "ReduceMin", jnp.bitwise_and, value)

    def _of_bits(
        self, equation: Equation, kind: str, function: Callable[..., Array], value: Name
    ) -> Name:
        axes = equation.params["axes"]
        if _is_flag(_out(equation).dtype):
            return self._any(value, axes, kind)
        return self._halved(equation, function, value)

    def jax_reduce_xor(self, equation: Equation, value: Name) -> Name:
        return self._halved(equation, jnp.bitwise_xor, value)

    def _halved(self, equation: Equation, function: Callable[..., Array], value: Name) -> Name:
        (found,) = self._through(
            lambda array: halved(
                lambda a, b: [function(a[0], b[0])], [array], equation.params["axes"]
            ),
            _shapes(equation),
            value,
        )
        return found

    def _any(self, value: Name, axes: Sequence[Any], kind: str = "ReduceMax") -> Name:
        if not axes:
            return value
        number = self.graph.cast(value, np.int64)
        return self.graph.cast(
            self.graph.add(kind, number, self._numbers([*axes]), keepdims=0), bool
        )

    def _widened(self, flags: Name, aval: Any) -> Name:
        """Flags of a batch, reshaped to broadcast over the other axes of an array."""
        return self._shaped(flags, [-1, *[1] * (len(aval.shape) - 1)])

    def jax_reduce(self, equation: Equation, *values: Name) -> list[Name]:
        traced = equation.params["jaxpr"]
        function = core.jaxpr_as_fun(traced)
        count = len(values) // 2

        def reduced(*arrays: Array) -> list[Array]:
            found = halved(
                lambda a, b: function(*a, *b), [*arrays[:count]], equation.params["dimensions"]
            )
            first = [
                jnp.broadcast_to(a, b.shape) for a, b in zip(arrays[count:], found, strict=True)
            ]
            return function(*first, *found)

        return self._through(reduced, _shapes(equation), *values)

    def jax_cumsum(self, equation: Equation, value: Name) -> Name:
        axis, backwards = equation.params["axis"], int(equation.params["reverse"])
        found = self.graph.add("CumSum", value, self._number(axis), reverse=backwards)
        return self._wrapped(found, _out(equation).dtype)

    # Products.

    def jax_dot_general(self, equation: Equation, left: Name, right: Name) -> Name:
        (lefts, rights), (left_batch, right_batch) = equation.params["dimension_numbers"]
        first, second = (len(each.aval.shape) for each in equation.invars)
        if (tuple(lefts), tuple(rights)) == ((first - 1,), (0,)) and second == 2 and not left_batch:
            return self._wrapped(self.graph.add("MatMul", left, right), _out(equation).dtype)
        letters = iter(string.ascii_lowercase)
        one = [next(letters) for _ in range(first)]
        two = [next(letters) for _ in range(second)]
        for there, here in ((rights, lefts), (right_batch, left_batch)):
            for axis, same in zip(there, here, strict=True):
                two[axis] = one[same]
        summed = {one[axis] for axis in lefts}
        batch = [one[axis] for axis in left_batch]
        free = [each for each in (*one, *two) if each not in summed and each not in batch]
        rule = f"{''.join(one)},{''.join(two)}->{''.join((*batch, *free))}"
        return self._wrapped(
            self.graph.add("Einsum", left, right, equation=rule), _out(equation).dtype
        )

    def jax_conv_general_dilated(self, equation: Equation, value: Name, weight: Name) -> Name:
        given = equation.params
        order = given["dimension_numbers"]
        if given["batch_group_count"] != 1 or any(each != 1 for each in given["lhs_dilation"]):
            raise ConfigError(
                "the network transposes a convolution, which has no operator here. Use --format "
                "stablehlo, which takes every network."
            )
        low, high = zip(*given["padding"], strict=True)
        found = self.graph.add(
            "Conv",
            self.graph.add("Transpose", value, perm=[*order.lhs_spec]),
            self.graph.add("Transpose", weight, perm=[*order.rhs_spec]),
            strides=[*given["window_strides"]],
            pads=[*low, *high],
            dilations=[*given["rhs_dilation"]],
            group=given["feature_group_count"],
        )
        return self.graph.add("Transpose", found, perm=np.argsort(order.out_spec).tolist())

    # Places in an array.

    def jax_gather(self, equation: Equation, value: Name, indices: Name, *_: Name) -> Name:
        given, operand = equation.params, equation.invars[0].aval
        order = given["dimension_numbers"]
        lookup = Lookup(
            shape=operand.shape,
            sizes=given["slice_sizes"],
            result=_out(equation).shape,
            window=order.offset_dims,
            dropped=order.collapsed_slice_dims,
            indexed=order.start_index_map,
            batched=getattr(order, "operand_batching_dims", ()),
            batched_indices=getattr(order, "start_indices_batching_dims", ()),
        )
        found, valid = self._looked_up(lookup, equation.invars[1].aval, value, indices)
        if given["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
            return found
        filling = given["fill_value"]
        if filling is None:
            is_float = jnp.issubdtype(operand.dtype, jnp.inexact)
            filling = _filling(operand.dtype) if not is_float else np.nan
        return self._where(
            valid, found, self._constant(np.asarray(filling, operand.dtype)), operand.dtype
        )

    def jax_dynamic_slice(self, equation: Equation, value: Name, *starts: Name) -> Name:
        sizes, operand = equation.params["slice_sizes"], equation.invars[0].aval
        lookup = Lookup.of_window(operand.shape, sizes)
        start = jax.ShapeDtypeStruct((len(sizes),), jnp.int32)
        return self._looked_up(lookup, start, value, self._joined(starts))[0]

    def _looked_up(
        self, lookup: Lookup, indices: Any, value: Name, start: Name
    ) -> tuple[Name, Name]:
        shapes = [jax.ShapeDtypeStruct(indices.shape, indices.dtype)]
        places, valid = self._through(lookup.places, shapes, start)
        return self.graph.add("Gather", self._shaped(value, [-1]), places), valid

    def _scattered(self, equation: Equation, how: str, *given: Name) -> Name:
        operand, indices, updates = (each.aval for each in equation.invars)
        order, mode = equation.params["dimension_numbers"], equation.params["mode"]
        batched = getattr(order, "operand_batching_dims", ())
        dropped = (*order.inserted_window_dims, *batched)
        sizes = [1] * len(operand.shape)
        kept = [axis for axis in range(len(sizes)) if axis not in dropped]
        for axis, there in zip(kept, order.update_window_dims, strict=True):
            sizes[axis] = updates.shape[there]
        lookup = Lookup(
            shape=operand.shape,
            sizes=sizes,
            result=updates.shape,
            window=order.update_window_dims,
            dropped=order.inserted_window_dims,
            indexed=order.scatter_dims_to_operand_dims,
            batched=batched,
            batched_indices=getattr(order, "scatter_indices_batching_dims", ()),
        )
        drops = mode == lax.GatherScatterMode.FILL_OR_DROP
        return self._put(lookup, operand, indices, how, drops, *given)

    def jax_dynamic_update_slice(
        self, equation: Equation, value: Name, update: Name, *starts: Name
    ) -> Name:
        operand, given = (each.aval for each in equation.invars[:2])
        lookup = Lookup.of_window(operand.shape, given.shape)
        start = jax.ShapeDtypeStruct((len(starts),), jnp.int32)
        return self._put(lookup, operand, start, "none", False, value, self._joined(starts), update)

    def _put(
        self, lookup: Lookup, operand: Any, indices: Any, how: str, drops: bool, *given: Name
    ) -> Name:
        """An array with updates at the indices of a lookup."""
        value, start, updates = given
        shapes = [jax.ShapeDtypeStruct(indices.shape, indices.dtype)]
        places, valid = self._through(lookup.places, shapes, start)
        flat = self._shaped(value, [-1])
        # Dropped updates go to an extra element at the end, which is sliced off.
        count = self.graph.add("Shape", flat)
        if drops:
            places = self.graph.add("Where", valid, places, count)
        longer = self.graph.add("Concat", flat, self._constant(np.zeros(1, operand.dtype)), axis=0)
        changed = self.graph.add(
            "ScatterElements",
            longer,
            self._shaped(places, [-1]),
            self._shaped(updates, [-1]),
            axis=0,
            reduction=how,
        )
        kept = self.graph.add("Slice", changed, self._numbers([0]), count)
        return self._shaped(kept, operand.shape)

    def _joined(self, values: Sequence[Name]) -> Name:
        return self.graph.add("Concat", *(self._shaped(each, [1]) for each in values), axis=0)

    # Control.

    def jax_while(self, equation: Equation, *given: Name) -> list[Name]:
        condition, body = equation.params["cond_jaxpr"], equation.params["body_jaxpr"]
        of_condition = given[: equation.params["cond_nconsts"]]
        rest = given[len(of_condition) :]
        of_body = rest[: equation.params["body_nconsts"]]
        state = rest[len(of_body) :]

        # Under `jax.vmap`, each element of the batch may end the loop at another iteration.
        axes = range(len(condition.out_avals[0].shape))

        def each_goes_on(state: Sequence[Name]) -> Name:
            return self.called(condition, [*of_condition, *state])[0]

        def step(_: Name, before: list[Name]) -> tuple[Name, list[Name], list[Any]]:
            after = self.called(body, [*of_body, *before])
            if axes:
                there = each_goes_on(before)
                after = [
                    self._where(self._widened(there, aval), new, old, aval.dtype)
                    for aval, new, old in zip(body.out_avals, after, before, strict=True)
                ]
            return self._any(each_goes_on(after), axes), after, []

        dtypes = [_dtype(each.aval.dtype) for each in equation.outvars]
        first = self._any(each_goes_on(state), axes)
        return self.graph.loop(None, first, state, dtypes, step)

    def jax_scan(self, equation: Equation, *given: Name) -> list[Name]:
        parameters = equation.params
        length, backwards, body = (parameters[name] for name in ("length", "reverse", "jaxpr"))
        # The state keeps its shape; scanned inputs and outputs have one axis more outside of the
        # body. Versions of JAX have different names for their numbers.
        num_rows = _larger(equation.invars, body.in_avals)
        num_state = len(equation.outvars) - _larger(equation.outvars, body.out_avals)
        num_constants = len(given) - num_state - num_rows
        constants, rows = given[:num_constants], given[len(given) - num_rows :]
        state = given[num_constants : num_constants + num_state]
        dtypes = [_dtype(each.aval.dtype) for each in equation.outvars]
        always = self.graph.constant(True)

        def step(number: Name, before: list[Name]) -> tuple[Name, list[Name], list[Any]]:
            if backwards:
                number = self.graph.add("Sub", self._number(length - 1), number)
            row = [self.graph.add("Gather", each, number, axis=0) for each in rows]
            found = self.called(body, [*constants, *before, *row])
            after, given = found[: len(state)], found[len(state) :]
            return always, after, [*zip(given, dtypes[len(state) :], strict=True)]

        found = self.graph.loop(length, always, state, dtypes[: len(state)], step)
        stacked = found[len(state) :]
        if backwards:
            stacked = [self._reversed(each, [0]) for each in stacked]
        return [*found[: len(state)], *stacked]

    def jax_cond(self, equation: Equation, which: Name, *given: Name) -> list[Name]:
        """Computes every branch and selects one, because branches have no side effects."""
        branches = [self.called(each, given) for each in equation.params["branches"]]
        return [
            self._selected(equation, which, cases, variable.aval.dtype)
            for variable, *cases in zip(equation.outvars, *branches, strict=True)
        ]


def _out(equation: Equation) -> Any:
    return equation.outvars[0].aval


def _larger(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    """The number of values with more axes outside of a loop's body than inside."""
    pairs = zip(outside, inside, strict=True)
    return sum(len(each.aval.shape) > len(aval.shape) for each, aval in pairs)


def _shapes(equation: Equation) -> list[jax.ShapeDtypeStruct]:
    avals = [each.aval for each in equation.invars]
    return [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in avals]


def _dtype(dtype: Any) -> Any:
    if _is_flag(dtype):
        return np.dtype(bool)
    for kind, stored in ((jnp.integer, np.int64), (jnp.floating, np.float32)):
        if jnp.issubdtype(dtype, kind):
            return np.dtype(stored)
    raise ConfigError(
        f"the network computes with {dtype}, which has no operator here. Use --format stablehlo, "
        "which takes every network."
    )


def _filling(dtype: Any) -> Any:
    """The result of a gather outside of the array, for integers and flags."""
    if _is_flag(dtype):
        return True
    info = np.iinfo(dtype)
    return info.max if info.min == 0 else info.min


def _is_flag(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.bool_))


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether a dtype has every number of an integer dtype."""
    if not jnp.issubdtype(wide, jnp.integer):
        return True
    one, other = np.iinfo(wide), np.iinfo(narrow)
    return bool(one.min <= other.min and other.max <= one.max)
