"""Games that Python holds for the state of an environment: who keeps them open, and until when."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import equinox as eqx
import jax
from jaxtyping import PyTree


class HeldGames(eqx.Module):
    """The part of a state that refers to games that Python holds outside of it.

    `evaluate` closes the games that it began; a `Trainer`'s games live as long as its state.
    """

    @abstractmethod
    def hold(self) -> None:
        """Keeps the games open until this state, and every other one that holds them, is gone."""

    @abstractmethod
    def close(self) -> None:
        """Closes the games. Games that are closed already stay so."""


def hold_games(tree: PyTree) -> None:
    """Keeps the games that a tree of concrete arrays names open as long as these arrays exist."""
    for games in _held(tree):
        games.hold()


@contextmanager
def closing_games(tree: PyTree) -> Iterator[None]:
    """Closes the games that Python holds for a state in the end. Most environments have none."""
    try:
        yield
    finally:
        for games in _held(tree):
            games.close()


def _held(tree: PyTree) -> list[HeldGames]:
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, HeldGames))
    return [node for node in nodes if isinstance(node, HeldGames)]
