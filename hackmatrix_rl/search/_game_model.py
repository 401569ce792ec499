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

    state: PyTree[Array]  #: After it; after the end of the game anything of the right shape.
    reward: Float32[Array, ""]  #: Of the action, for the player who took it.
    terminated: Bool[Array, ""]  #: The rules ended the game.
    #: The other player of two moves next, whose gain is the first one's loss.
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

    def searched(self, mask: Legal) -> Legal:
        """The actions among the legal ones that the search may choose; by default all.

        The others are played as often as the network draws them.
        """
        return mask

    @abstractmethod
    def imagine(self, game: Game, *, key: Key[Array, ""]) -> Imagined:
        """A state that looks like the real one, with hidden information resampled.

        The result depends on nothing but `key` that the player cannot see.
        """

    @abstractmethod
    def look(self, state: Imagined) -> PyTree[Array]:
        """The network's observation of an imagined state."""

    @abstractmethod
    def legal(self, state: Imagined) -> Legal:
        """The actions to simulate in an imagined state."""

    @abstractmethod
    def play(self, state: Imagined, action: Action, *, key: Key[Array, ""]) -> ImaginedStep:
        """Takes an action in an imagined state, with `key` for all random numbers."""


@final
class SingleGameModel(GameModel[PyTree[Array], PyTree[Array]]):
    """Any `SingleGame`: its own rules are the model."""

    game: SingleGame[PyTree[Array]]  #: The game.
    #: Samples what the player does not see, from a state and a key; by default the player sees
    #: everything. If a state keeps the key of its chance, `redraw` must replace this key: otherwise
    #: the search sees the future.
    redraw: Callable[[PyTree[Array], Key[Array, ""]], PyTree[Array]] = eqx.field(
        static=True, default=lambda state, key: state
    )
    #: Whether two players move in turn, and a reward is for who moves; else one player plays
    #: alone.
    in_turn: bool = eqx.field(static=True, default=False)

    def mismatch(self, environment: Environment) -> str | None:
        if isinstance(environment, Batched) and bool(eqx.tree_equal(environment.game, self.game)):
            return None
        return f"the search knows {type(self.game).__name__}, and the environment is another game"

    def observe(self, game: PyTree[Array]) -> PyTree[Array]:
        return self.game.observe(game)

    def imagine(self, game: PyTree[Array], *, key: Key[Array, ""]) -> PyTree[Array]:
        return self.redraw(game, key)

    def look(self, state: PyTree[Array]) -> PyTree[Array]:
        return self.game.observe(state)

    def legal(self, state: PyTree[Array]) -> Legal:
        return self.game.legal(state)

    def play(self, state: PyTree[Array], action: Action, *, key: Key[Array, ""]) -> ImaginedStep:
        """One action of the game. The search looks beyond a limit that cuts episodes."""
        played = self.game.play(state, action, key=key)
        reward = jnp.asarray(played.reward).astype(jnp.float32)
        return ImaginedStep(played.state, reward, jnp.asarray(played.terminated), self.in_turn)


@final
class HackMatrixModel(GameModel[State, Position]):
    """The rules of HackMatrix on positions without a history.

    Imagined games have no UNDO: its snapshots show what the player has not seen. In the real game,
    it is played where the network draws it. The reward is the environment's, which the network's
    value predicts.
    """

    environment: HackMatrix  #: The one that the network was trained in.

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
        """The observation of a position whose last turns were like it."""
        return self.environment.observe_position(state)

    def legal(self, state: Position) -> Legal:
        return allowed(state, can_undo=jnp.bool_(False))

    def play(self, state: Position, action: Action, *, key: Key[Array, ""]) -> ImaginedStep:
        """One action that is not UNDO, and the set-up of a next stage: as `play` of a game."""
        chance = Chance.from_key(key)
        after, event = attempt(state, action, chance=chance.fold_in(StepStream.ACT))
        reward = self.environment.reward.weigh(reward_terms(state, after, event))
        goes_on = event.completed & ~event.won
        after = set_up_if(goes_on, after, chance=stage_chance(chance))
        return ImaginedStep(after, reward, event.died | event.won)
