"""Checks of the fields of a task's config, by name."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

from hackmatrix_rl.errors import described, whole


def check_steps(config: Any, least: Mapping[str, int]) -> None:
    """Raises unless these fields are whole numbers, and sets them to plain integers.

    Args:
        config: a frozen dataclass.
        least: by the name of a field, the smallest number of it.

    Raises:
        TypeError: a field is no whole number.
        ValueError: a field is too small.
    """
    for name, minimum in least.items():
        object.__setattr__(config, name, whole(name, getattr(config, name), minimum))


def check_number(name: str, value: Any, *, most: float = math.inf) -> float:
    """The argument as a float.

    Args:
        name: of the argument.
        value: its value.
        most: the largest valid number.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative, too large or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {described(value)}; expected a number")
    if not (0 <= float(value) <= most and math.isfinite(value)):
        bounds = "0 or more" if math.isinf(most) else f"a number from 0 to {most:g}"
        raise ValueError(f"{name} is {float(value):g}; expected {bounds}")
    return float(value)


def check_coherences(values: Any) -> tuple[float, ...]:
    """The coherences as a tuple of floats.

    Raises:
        TypeError: they are no tuple of numbers.
        ValueError: there is none, or one is not in 0 to 100.
    """
    if not isinstance(values, tuple | list):
        raise TypeError(f"coherences is {described(values)}; expected a tuple of numbers")
    if not values:
        raise ValueError("coherences is empty; expected one number or more, such as (51.2,)")
    return tuple(check_number("coherences", each, most=100) for each in values)
