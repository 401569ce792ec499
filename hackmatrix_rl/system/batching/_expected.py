"""How often the costlier side of a condition is taken, for the count of a program's operations."""

import re
from contextlib import AbstractContextManager
from typing import Any

import jax

_TAKEN = re.compile(r"taken=([\d.]+)")


def taken(share: float) -> AbstractContextManager[None]:
    """In this context, a condition takes its costlier branch in this share of all cases.

    0 also says of a loop that its rounds do not count. It is a name in traces and profiles, and
    changes nothing that is computed.
    """
    return jax.named_scope(f"taken={share:.6f}")


def share_taken(equation: Any) -> float | None:
    """The share of a traced equation that stands in `taken`; `None` for another."""
    found = _TAKEN.search(str(equation.source_info.name_stack))
    return None if found is None else float(found[1])
