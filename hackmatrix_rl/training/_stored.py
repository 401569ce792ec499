"""Converts a tree to arrays by path, and back.

A checkpoint stores each array of a module under its path in the tree (`.layers[0].weight`), so it
can be read without the code of the module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from hackmatrix_rl.agent.precision import path_name
from hackmatrix_rl.system.errors import is_key, printable
from hackmatrix_rl.training.sharding import on_device

T = TypeVar("T")
Tree = TypeVar("Tree")

RENAMED_ARRAYS: Mapping[str, str] = {
    ".actors.collector": ".collector_state.games",
    ".actors": ".collector_state",
    ".collector_state.environment.bank.saved.game": ".collector_state.environment.bank.games",
}
"""Former paths of arrays in a training state, and the current ones; longer paths come first.
Former paths are read for one version."""

DROPPED_ARRAYS = tuple(
    f".collector_state.environment.bank.saved.{name}" for name in ("mask", "observation")
)
"""Former paths of arrays that follow from others."""


def is_array(leaf: object) -> bool:
    """Whether a leaf is an array or the shape of one."""
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def leaves_by_path(tree: PyTree) -> dict[str, Any]:
    """The array leaves of a tree, or their shapes, by their paths.

    Arrays without elements, such as the masks of a `Box`, are left out: Orbax stores none.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, is_array))
    return {path_name(path): leaf for path, leaf in leaves if leaf.size}


def arrays_to_store(tree: PyTree) -> dict[str, jax.Array]:
    """Copies of the array leaves by path; random keys as their raw data.

    They are copies, because training donates the state while the checkpoint is written.
    """
    return {
        name: jax.random.key_data(leaf) if is_key(leaf) else jnp.copy(on_device(leaf))
        for name, leaf in leaves_by_path(tree).items()
    }


def random_keys(tree: PyTree) -> dict[str, str]:
    """The generator of each leaf that is a random key, by path."""
    return {
        name: str(jax.random.key_impl(leaf))
        for name, leaf in leaves_by_path(tree).items()
        if is_key(leaf)
    }


@dataclass(frozen=True)
class Stored:
    """The arrays of a checkpoint.

    Attributes:
        arrays: the arrays in host memory, by path; random keys as their raw data.
        keys: the generator of each array that is a random key, by path.
    """

    arrays: Mapping[str, np.ndarray]
    keys: Mapping[str, str]

    def under(self, path: str) -> "Stored":
        """The arrays under a path, with this prefix removed from their names."""
        return Stored(_under(path, self.arrays), _under(path, self.keys))

    def named_as(self, like: PyTree) -> "Stored":
        """The arrays under their current paths (`RENAMED_ARRAYS`), if the tree has those.

        If the tree has the former path, such as the state of a custom algorithm, the arrays are
        unchanged. Every method that takes a tree calls this.
        """
        wanted = leaves_by_path(like)
        moves = [
            (old, new)
            for old, new in RENAMED_ARRAYS.items()
            if _under(new, wanted) and not _under(old, wanted) and not _under(new, self.arrays)
        ]
        dropped = [path for path in DROPPED_ARRAYS if not _under(path, wanted)]
        names = {
            name: _moved(name, moves)
            for name in self.arrays
            if not any(_is_under(path, name) for path in dropped)
        }
        if len({*names.values()}) < len(names):  # no earlier version stored both
            return self
        return Stored(
            {new: self.arrays[name] for name, new in names.items()},
            {names[name]: generator for name, generator in self.keys.items()},
        )

    def members(self, like: PyTree) -> int | None:
        """The number of members, if the arrays belong to a tree with an axis of members."""
        wanted, named = leaves_by_path(like), self.named_as(like)
        if not wanted or wanted.keys() != named.arrays.keys():
            return None
        shapes = [(named._array(name).shape, leaf.shape) for name, leaf in wanted.items()]
        if any(len(there) != len(here) + 1 or there[1:] != here for there, here in shapes):
            return None
        sizes = {there[0] for there, _ in shapes}
        return sizes.pop() if len(sizes) == 1 else None

    def member(self, number: int) -> "Stored":
        """The arrays of one member of a population."""
        arrays = {name: np.asarray(array[number]) for name, array in self.arrays.items()}
        return Stored(arrays, self.keys)

    def mismatch(
        self, like: PyTree, *, stored: str = "the checkpoint", here: str = "these settings"
    ) -> str | None:
        """The first difference between the stored arrays and a tree, in words; `None` if equal.

        It compares paths, shapes and dtypes. `stored` and `here` are their names in the message.
        """
        wanted, named = leaves_by_path(like), self.named_as(like)
        if wanted.keys() != named.arrays.keys():
            odd = sorted(wanted.keys() ^ named.arrays.keys())[0]
            return f"only {f'{here} have' if odd in wanted else f'{stored} has'} {printable(odd)}"
        for name, leaf in wanted.items():
            is_here, is_there = _described(leaf), _described(named._array(name))
            if is_here != is_there:
                return f"{name} is {is_there} in {stored}, {is_here} here"
        return None

    @property
    def fewest(self) -> int | float:
        """The smallest first axis, a bound on the number of members; infinite without arrays."""
        return min((len(array) if array.ndim else 0 for array in self.arrays.values()), default=inf)

    def not_finite(self) -> str | None:
        """The name of the first array with NaN or infinity; `None` if all are finite."""
        found = (name for name, array in self.arrays.items() if not np.isfinite(array).all())
        return next(found, None)

    def fill(self, like: Tree) -> Tree:
        """The tree with the stored arrays in place of its arrays or shapes.

        Raises:
            ValueError: the stored arrays do not match the tree.
        """
        if (wrong := self.mismatch(like)) is not None:
            raise ValueError(wrong)
        arrays, rest = eqx.partition(like, is_array)
        named = self.named_as(like)
        filled = jax.tree.map_with_path(
            lambda path, leaf: (
                named._array(path_name(path)) if leaf.size else np.zeros(leaf.shape, leaf.dtype)
            ),
            arrays,
        )
        return cast(Tree, eqx.combine(filled, rest))

    def _array(self, name: str) -> np.ndarray | jax.Array:
        if name in self.keys:
            return jax.random.wrap_key_data(jnp.asarray(self.arrays[name]), impl=self.keys[name])
        return self.arrays[name]


def _under(path: str, stored: Mapping[str, T]) -> dict[str, T]:
    return {
        name.removeprefix(path): value for name, value in stored.items() if _is_under(path, name)
    }


def _is_under(path: str, name: str) -> bool:
    return name == path or (name.startswith(path) and name[len(path)] in ".[")


def _moved(name: str, moves: Sequence[tuple[str, str]]) -> str:
    """The path after the first move that applies to it."""
    fit = (new + name.removeprefix(old) for old, new in moves if _is_under(old, name))
    return next(fit, name)


def _described(array: np.ndarray | jax.Array | jax.ShapeDtypeStruct) -> str:
    return f"{array.dtype}{list(array.shape)}"
