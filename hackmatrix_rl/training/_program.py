"""The program of a dispatch: several updates, and the shapes that it is compiled for."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int32, PyTree

from hackmatrix_rl.system import cpu_options
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, State
from hackmatrix_rl.training.sharding import (
    constrain,
)

T = TypeVar("T")


def run_updates(
    algorithm: Algorithm[State], state: State, count: Int32[Array, ""]
) -> tuple[State, PyTree[Array]]:
    """Does `count` updates without leaving the device.

    The count is an argument of the program. One program therefore serves a whole dispatch and
    the shorter one at the end.

    Returns:
        The state after them, and the sum of their reports.
    """
    arrays, rest = eqx.partition((algorithm, state), eqx.is_array)
    modules, arrays = arrays

    # Jitted, so that it is traced once for both uses.
    @jax.jit
    def once(modules: Any, arrays: Any) -> tuple[Any, PyTree[Array]]:
        algorithm, state = eqx.combine((modules, arrays), rest)
        state, report = algorithm(state)
        state = constrain(state, algorithm.shardings(state))
        return eqx.filter(state, eqx.is_array), report

    _, report = jax.eval_shape(once, modules, arrays)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), report)

    def body(_: Int32[Array, ""], carry: tuple[Any, PyTree[Array]]) -> tuple[Any, PyTree[Array]]:
        arrays, sums = carry
        arrays, report = once(modules, arrays)
        return arrays, jax.tree.map(jnp.add, sums, report)

    arrays, sums = jax.lax.fori_loop(0, count, body, (arrays, nothing))
    return eqx.combine(arrays, rest[1]), sums


def compiler_options(mesh: Mesh, *, once: bool = False) -> dict[str, str | bool]:
    """The options to compile programs for these devices with.

    A CPU gets the options that suit this version of jaxlib (`system/_compatibility.py`). Other
    devices get XLA's own, and so does a JAX with `jax_disable_most_optimizations`.

    Args:
        mesh: the devices.
        once: whether the program runs a single time: compiling is then its whole cost.
    """
    less = jax.config.read("jax_disable_most_optimizations")
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return {} if less or not on_cpu else cpu_options(once=once)


def is_shape(leaf: Any) -> bool:
    """Whether a leaf is the shape of an array."""
    return isinstance(leaf, jax.ShapeDtypeStruct)


def shapes_of(tree: T) -> T:
    """The tree with shapes, which know their shardings, in place of arrays."""

    def shape(leaf: Any) -> Any:
        if not eqx.is_array(leaf):
            return leaf
        sharding = getattr(leaf, "sharding", None)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    shapes: T = jax.tree.map(shape, tree)
    return shapes


def located(shapes: T, shardings: Any) -> T:
    """The tree of shapes, each with its sharding."""
    tree: T = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        shardings,
    )
    return tree


def sizes_of(state: AlgorithmState) -> tuple[Any, ...]:
    """Shapes and dtypes of a state. One compiled program serves states that share them."""
    leaves, structure = jax.tree.flatten(eqx.filter(state, eqx.is_array))
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]
