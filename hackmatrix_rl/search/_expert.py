"""One-step lookahead with a heuristic value."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.evaluation import GameAgent, Thought
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    NUM_ACTIONS,
    GameConfig,
    Past,
    Program,
    State,
    recall,
)
from hackmatrix_rl.search._imagined import Legal, decide
from hackmatrix_rl.search._streams import ImaginedStream
from hackmatrix_rl.search._unseen import draw_unseen
from hackmatrix_rl.search._weights import EvaluationWeights
from hackmatrix_rl.system.batching import Chance, below

UNDO = FIRST_PROGRAM + Program.UNDO


@final
class Expert(GameAgent):
    """One-step lookahead: plays the action whose result has the best heuristic value.

    It is fair: it simulates actions on a position in which all hidden information is resampled.
    UNDO is not simulated; fixed rules decide about it (`undoes`).
    """

    config: GameConfig = eqx.field(static=True)  #: Sizes and league of the game.
    weights: EvaluationWeights  #: Of the heuristic.

    def __init__(self, config: GameConfig, weights: EvaluationWeights | None = None) -> None:
        """A player of a game; by default with the package's weights for its league."""
        self.config = config
        self.weights = EvaluationWeights.shipped(config.league) if weights is None else weights

    def think(
        self, observation: PyTree[Array], mask: Legal, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Simulates the legal actions of a `State`; the thought has the value of each."""
        chance = Chance.from_key(key)
        seen = draw_unseen(observation.position, chance=chance.fold_in(ImaginedStream.UNSEEN))
        others = without_undo(mask)
        play = chance.fold_in(ImaginedStream.PLAY)
        found = decide(self.config, seen, others, self.weights, chance=play)
        undo = undoes(self.config, observation, mask, chance=chance.fold_in(ImaginedStream.UNDO))
        assert found.values is not None
        values = jnp.where(others, found.values, jnp.nan)
        return jnp.where(undo, UNDO, found.choice), carry, Thought(search_values=values)


def without_undo(mask: Legal) -> Legal:
    """The legal actions without UNDO."""
    return mask & (jnp.arange(NUM_ACTIONS) != UNDO)


def undoes(config: GameConfig, state: State, mask: Legal, *, chance: Chance) -> Bool[Array, ""]:
    """Whether the player plays UNDO.

    It plays a legal UNDO

    - at the start of a stage, if that restores the old board, one step from its exit;
    - with probability 7/8, if the newest snapshot or the one before it has more hp, and also
      UNDO and a credit: this reverts the damage;
    - if nothing else is legal.
    """
    position, history = state.position, state.history
    latest, earlier = recall(history), recall(history, back=1)
    hp = position.player.hp
    back_one = (latest.player.hp > hp) & _can_undo_again(latest)
    back_two = (latest.player.hp == hp) & (earlier.player.hp > hp) & _can_undo_again(earlier)
    heals = (back_one | back_two) & (below(chance.bits(), 8) != 0)
    rewinds = (position.turn == 0) & config.rewind_across_stages
    return mask[UNDO] & (rewinds | heals | ~without_undo(mask).any())


def _can_undo_again(snapshot: Past) -> Bool[Array, ""]:
    owned = (snapshot.programs >> Program.UNDO) & 1 == 1
    return snapshot.held & owned & (snapshot.player.credits >= 1)
