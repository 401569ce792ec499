"""HackMatrix as a `SingleGame`, with the classic observation."""

from typing import final

import equinox as eqx
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env._encoding import observe
from hackmatrix_rl.env._single_game import Played, SingleGame
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    GameConfig,
    RewardConfig,
    State,
    legal_actions,
    new_game,
    play,
)


@final
class HackMatrixGame(SingleGame[State]):
    """One game with the classic observation (rules, section 10), without a limit of steps.

    For large batches `HackMatrix` is many times faster.

    Attributes:
        config: sizes and league of the game.
        reward: weights of the terms of the reward.
    """

    config: GameConfig = eqx.field(static=True, default=GameConfig())
    reward: RewardConfig = eqx.field(static=True, default=RewardConfig())

    @property
    def num_actions(self) -> int:
        """4 directions, the siphon and 23 programs."""
        return NUM_ACTIONS

    def start(self, *, key: Key[Array, ""]) -> State:
        """A new game."""
        return new_game(self.config, key=key)

    def observe(self, state: State) -> PyTree[Array]:
        """The classic observation."""
        return observe(self.config, state)

    def legal(self, state: State) -> Bool[Array, " num_actions"]:
        """The legal actions."""
        return legal_actions(self.config, state)

    def play(self, state: State, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Plays one action. By the rules, an illegal action ends the episode."""
        after, outcome = play(self.config, state, action, key=key)
        over = ~outcome.legal | outcome.died | outcome.won
        return Played(after, self.reward.weigh(outcome.terms), over)
