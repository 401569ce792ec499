"""Games that Python holds for the state of an environment, and their lifetime."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import equinox as eqx
import jax
from jaxtyping import PyTree


class HeldGames(eqx.Module):
    """The part of a state that refers to games that Python holds.

    `evaluate` closes the games that it starts. The games of a `Trainer` live as long as its state.
    """

    @abstractmethod
    def hold(self) -> None:
        """Keeps the games open until all states that hold them are deleted."""

    @abstractmethod
    def close(self) -> None:
        """Closes the games. It does nothing if they are closed already."""


def hold_games(tree: PyTree) -> None:
    """Keeps the games of a tree of concrete arrays open as long as these arrays exist."""
    for games in _held(tree):
        games.hold()


@contextmanager
def closing_games(tree: PyTree) -> Iterator[None]:
    """A context that closes the games that Python holds for a state, if any, on exit."""
    try:
        yield
    finally:
        for games in _held(tree):
            games.close()


def _held(tree: PyTree) -> list[HeldGames]:
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, HeldGames))
    return [node for node in nodes if isinstance(node, HeldGames)]
