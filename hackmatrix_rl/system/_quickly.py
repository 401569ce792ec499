"""Faster compilation, for programs that compile for longer than they run."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

from hackmatrix_rl.system._compatibility import quick_options

P = ParamSpec("P")
R = TypeVar("R")


def quickly_compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`eqx.filter_jit(function)` with options for faster compilation and bitwise equal results.

    Inside another compiled function, the options of that function apply.
    """

    @cache
    def compiled(options: tuple[tuple[str, str | bool], ...]) -> Callable[P, R]:
        given: dict[str, Any] = {"compiler_options": dict(options)} if options else {}
        return eqx.filter_jit(function, **given)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        inside = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))
        own = inside or jax.config.read("jax_disable_most_optimizations")
        own = own or jax.default_backend() != "cpu"
        return compiled(() if own else tuple(quick_options().items()))(*args, **kwargs)

    return run
