"""The model of a game for tree search: its rules, on imagined states."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env import Batched, Environment, SingleGame

Game = TypeVar("Game")
Imagined = TypeVar("Imagined")


class ImaginedStep(NamedTuple):
    """The result of an action in an imagined game.

    Attributes:
        state: after it; after the end of the game anything of the right shape.
        reward: of the action, for the player who took it.
        terminated: the rules ended the game.
        opponents_turn: the other player of two moves next, whose gain is the first one's loss.
    """

    state: PyTree[Array]
    reward: Float32[Array, ""]
    terminated: Bool[Array, ""]
    opponents_turn: Bool[Array, ""] | bool = False


class GameModel(eqx.Module, Generic[Game, Imagined]):
    """One game as a tree search needs it; callers use `jax.vmap`.

    There are two kinds of state: the real one, which the player stands in, and imagined ones, in
    which the search tries actions out. `imagine` leads from the first to the second, and what the
    player does not see goes no further.
    """

    @abstractmethod
    def mismatch(self, environment: Environment) -> str | None:
        """The reason why this is no model of an environment; `None` if it is."""

    @abstractmethod
    def observe(self, game: Game) -> PyTree[Array]:
        """The network's observation of the real state."""

    @abstractmethod
    def searched(self, mask: Bool[Array, " num_actions"]) -> Bool[Array, " num_actions"]:
        """The actions among the legal ones that the search may choose."""

    @abstractmethod
    def by_rule(
        self, game: Game, mask: Bool[Array, " num_actions"], *, key: Key[Array, ""]
    ) -> Int32[Array, ""]:
        """The action that a rule takes in the real state; -1 leaves it to the search."""

    @abstractmethod
    def imagine(self, game: Game, *, key: Key[Array, ""]) -> Imagined:
        """A state that looks like the real one, with hidden information resampled.

        Args:
            game: the real state.
            key: of what is drawn. The result depends on nothing else that the player cannot see.
        """

    @abstractmethod
    def look(self, state: Imagined) -> PyTree[Array]:
        """The network's observation of an imagined state."""

    @abstractmethod
    def legal(self, state: Imagined) -> Bool[Array, " num_actions"]:
        """The actions to simulate in an imagined state."""

    @abstractmethod
    def play(
        self, state: Imagined, action: Int32[Array, ""], *, key: Key[Array, ""]
    ) -> ImaginedStep:
        """Takes an action in an imagined state, with `key` for all random numbers."""


def _as_it_is(state: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
    return state


@final
class SingleGameModel(GameModel[PyTree[Array], PyTree[Array]]):
    """Any `SingleGame`: its own rules are the model.

    Attributes:
        game: the game.
        redraw: draws anew what the player does not see, from a state and a key; by default the
            player sees everything. A state that keeps the key of its own chance needs a `redraw`
            that replaces this key: otherwise the search sees the future.
        in_turn: whether two players move in turn, and a reward is that of who moves; else one
            player plays alone.
    """

    game: SingleGame[PyTree[Array]]
    redraw: Callable[[PyTree[Array], Key[Array, ""]], PyTree[Array]] = eqx.field(
        static=True, default=_as_it_is
    )
    in_turn: bool = eqx.field(static=True, default=False)

    def mismatch(self, environment: Environment) -> str | None:
        """The mismatch if the environment plays another game."""
        if isinstance(environment, Batched) and bool(eqx.tree_equal(environment.game, self.game)):
            return None
        return f"the search knows {type(self.game).__name__}, and the environment is another game"

    def observe(self, game: PyTree[Array]) -> PyTree[Array]:
        """The game's observation."""
        return self.game.observe(game)

    def searched(self, mask: Bool[Array, " num_actions"]) -> Bool[Array, " num_actions"]:
        """All legal actions."""
        return mask

    def by_rule(
        self, game: PyTree[Array], mask: Bool[Array, " num_actions"], *, key: Key[Array, ""]
    ) -> Int32[Array, ""]:
        """-1: there is no rule."""
        return jnp.int32(-1)

    def imagine(self, game: PyTree[Array], *, key: Key[Array, ""]) -> PyTree[Array]:
        """The state after `redraw`."""
        return self.redraw(game, key)

    def look(self, state: PyTree[Array]) -> PyTree[Array]:
        """The game's observation."""
        return self.game.observe(state)

    def legal(self, state: PyTree[Array]) -> Bool[Array, " num_actions"]:
        """The game's legal actions."""
        return self.game.legal(state)

    def play(
        self, state: PyTree[Array], action: Int32[Array, ""], *, key: Key[Array, ""]
    ) -> ImaginedStep:
        """One action of the game. The search looks beyond a limit that cuts episodes."""
        played = self.game.play(state, action, key=key)
        reward = jnp.asarray(played.reward).astype(jnp.float32)
        return ImaginedStep(played.state, reward, jnp.asarray(played.terminated), self.in_turn)
