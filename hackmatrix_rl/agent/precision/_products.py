"""The dtypes of the products in a traced program."""

from collections.abc import Iterator
from typing import Any

import numpy as np


def equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a traced program and of all programs within it."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    yield from equations(inner)


def products(jaxpr: Any) -> list[tuple[np.dtype[Any], ...]]:
    """The dtypes of the operands of each matrix product and convolution in a traced program."""
    return [
        tuple(value.aval.dtype for value in equation.invars)
        for equation in equations(jaxpr)
        if equation.primitive.name in ("dot_general", "conv_general_dilated")
    ]
