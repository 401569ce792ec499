"""The model of a game for tree search: its rules, on imagined states."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env import Batched, Environment, HackMatrix, SingleGame
from hackmatrix_rl.games.hackmatrix import (
    Position,
    State,
    StepStream,
    allowed,
    attempt,
    reward_terms,
    set_up_if,
    stage_chance,
)
from hackmatrix_rl.search._expert import without_undo
from hackmatrix_rl.search._imagined import Legal
from hackmatrix_rl.search._unseen import draw_unseen
from hackmatrix_rl.system.batching import Chance

Game = TypeVar("Game")
Imagined = TypeVar("Imagined")
Action = Int32[Array, ""]


class ImaginedStep(NamedTuple):
    """The result of an action in an imagined game."""

    state: PyTree[Array]  #: The next state; undefined after the end of the game.
    reward: Float32[Array, ""]  #: For the player who took the action.
    terminated: Bool[Array, ""]  #: The rules ended the game.
    #: The opponent moves next, in a zero-sum game of two players.
    opponents_turn: Bool[Array, ""] | bool = False


class GameModel(eqx.Module, Generic[Game, Imagined]):
    """The interface of a game for a tree search; callers use `jax.vmap`.

    There are two kinds of state: the real one, and imagined ones, in which the search simulates
    actions. `imagine` converts a real state to an imagined one, without its hidden information.
    """

    @abstractmethod
    def mismatch(self, environment: Environment) -> str | None:
        """The reason why this is not a model of an environment; `None` if it is."""

    @abstractmethod
    def observe(self, game: Game) -> PyTree[Array]:
        """The network's observation of the real state."""

    def searched(self, mask: Legal) -> Legal:
        """The legal actions that the search may choose; by default all.

        The others are played when the network samples them.
        """
        return mask

    @abstractmethod
    def imagine(self, game: Game, *, key: Key[Array, ""]) -> Imagined:
        """A state that looks like the real one, with hidden information resampled.

        The result depends only on `key` and on what the player sees.
        """

    @abstractmethod
    def look(self, state: Imagined) -> PyTree[Array]:
        """The network's observation of an imagined state."""

    @abstractmethod
    def legal(self, state: Imagined) -> Legal:
        """The actions to simulate in an imagined state."""

    @abstractmethod
    def play(self, state: Imagined, action: Action, *, key: Key[Array, ""]) -> ImaginedStep:
        """Takes an action in an imagined state; `key` is the source of all randomness."""


@final
class SingleGameModel(GameModel[PyTree[Array], PyTree[Array]]):
    """Any `SingleGame`: its rules are the model."""

    game: SingleGame[PyTree[Array]]  #: The game.
    #: Resamples hidden information, from a state and a key; by default there is none. If a state
    #: keeps the key of its chance outcomes, `redraw` must replace this key: otherwise the search
    #: sees the future.
    redraw: Callable[[PyTree[Array], Key[Array, ""]], PyTree[Array]] = eqx.field(
        static=True, default=lambda state, key: state
    )
    #: Whether two players move in turn, with rewards for the player who moves; else one player
    #: plays alone.
    in_turn: bool = eqx.field(static=True, default=False)

    def mismatch(self, environment: Environment) -> str | None:
        if isinstance(environment, Batched) and bool(eqx.tree_equal(environment.game, self.game)):
            return None
        return f"the search plays {type(self.game).__name__}, and the environment is another game"

    def observe(self, game: PyTree[Array]) -> PyTree[Array]:
        return self.game.observe(game)

    def imagine(self, game: PyTree[Array], *, key: Key[Array, ""]) -> PyTree[Array]:
        return self.redraw(game, key)

    def look(self, state: PyTree[Array]) -> PyTree[Array]:
        return self.game.observe(state)

    def legal(self, state: PyTree[Array]) -> Legal:
        return self.game.legal(state)

    def play(self, state: PyTree[Array], action: Action, *, key: Key[Array, ""]) -> ImaginedStep:
        """One action of the game. The search ignores a limit of steps."""
        played = self.game.play(state, action, key=key)
        reward = jnp.asarray(played.reward).astype(jnp.float32)
        return ImaginedStep(played.state, reward, jnp.asarray(played.terminated), self.in_turn)


@final
class HackMatrixModel(GameModel[State, Position]):
    """The rules of HackMatrix on positions without a history.

    Imagined games have no UNDO, whose snapshots contain hidden information. In the real game, it is
    played when the network samples it. The reward is the environment's, which the network's value
    predicts.
    """

    environment: HackMatrix  #: The environment in which the network was trained.

    def mismatch(self, environment: Environment) -> str | None:
        if not isinstance(environment, HackMatrix):
            return f"the search plays HackMatrix, not {type(environment).__name__}"
        known = self.environment.config
        if environment.config != known:
            return (
                f"the search plays the game {known}, but the environment's is "
                f"{environment.config}; use Searcher(policy, environment)"
            )
        return None

    def observe(self, game: State) -> PyTree[Array]:
        return self.environment.observe(game)

    def searched(self, mask: Legal) -> Legal:
        """The legal actions without UNDO."""
        return without_undo(mask)

    def imagine(self, game: State, *, key: Key[Array, ""]) -> Position:
        return draw_unseen(game.position, chance=Chance.from_key(key))

    def look(self, state: Position) -> PyTree[Array]:
        """The observation of a position, as if its last turns had been like it."""
        return self.environment.observe_position(state)

    def legal(self, state: Position) -> Legal:
        return allowed(state, can_undo=jnp.bool_(False))

    def play(self, state: Position, action: Action, *, key: Key[Array, ""]) -> ImaginedStep:
        """One action that is not UNDO, and the set-up of the next stage, as in `play` of a game."""
        chance = Chance.from_key(key)
        after, event = attempt(state, action, chance=chance.fold_in(StepStream.ACT))
        reward = self.environment.reward.weigh(reward_terms(state, after, event))
        goes_on = event.completed & ~event.won
        after = set_up_if(goes_on, after, chance=stage_chance(chance))
        return ImaginedStep(after, reward, event.died | event.won)
