"""HackMatrix as a tree search needs it."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.batching import Chance
from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.game import (
    Position,
    State,
    allowed,
    attempt,
    reward_terms,
    set_up_if,
    stage_chance,
)
from hackmatrix_rl.search._expert import UNDO, undoes, without_undo
from hackmatrix_rl.search._game_model import GameModel, ImaginedStep
from hackmatrix_rl.search._unseen import draw_unseen


@final
class HackMatrixModel(GameModel[State, Position]):
    """The rules of HackMatrix on positions without a history.

    Imagined games have no UNDO: its snapshots show what the player has not seen. In the real game,
    the expert's rules decide about it (`undoes`). The reward is that of the environment, which the
    network's value predicts.

    Attributes:
        environment: the one that the network was trained in.
    """

    environment: HackMatrix

    def mismatch(self, environment: Environment) -> str | None:
        """The mismatch if the environment is another game or has another config."""
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
        """The real observation, with what the player remembers."""
        return self.environment.observe(game)

    def searched(self, mask: Bool[Array, " num_actions"]) -> Bool[Array, " num_actions"]:
        """The legal actions without UNDO."""
        return without_undo(mask)

    def by_rule(
        self, game: State, mask: Bool[Array, " num_actions"], *, key: Key[Array, ""]
    ) -> Int32[Array, ""]:
        """UNDO where the expert plays it, else -1."""
        undo = undoes(self.environment.config, game, mask, chance=Chance.of(key))
        return jnp.where(undo, UNDO, -1)

    def imagine(self, game: State, *, key: Key[Array, ""]) -> Position:
        """The position after `draw_unseen`."""
        return draw_unseen(game.position, chance=Chance.of(key))

    def look(self, state: Position) -> PyTree[Array]:
        """The observation of a position whose last turns were like it."""
        return self.environment.observe_position(state)

    def legal(self, state: Position) -> Bool[Array, " num_actions"]:
        """The legal actions without UNDO."""
        return allowed(state, can_undo=jnp.bool_(False))

    def play(
        self, state: Position, action: Int32[Array, ""], *, key: Key[Array, ""]
    ) -> ImaginedStep:
        """One action that is not UNDO, and the set-up of a next stage: as `play` of a game."""
        chance = Chance.of(key)
        after, event = attempt(state, action, chance=chance.fold_in(0))
        reward = self.environment.reward.weigh(reward_terms(state, after, event))
        goes_on = event.completed & ~event.won
        after = set_up_if(goes_on, after, chance=stage_chance(chance))
        return ImaginedStep(after, reward, event.died | event.won)
