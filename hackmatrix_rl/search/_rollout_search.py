"""A player that compares actions by rollouts before each move."""

from dataclasses import replace
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.evaluation import GameAgent, Thought
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, GameConfig, Position
from hackmatrix_rl.search._expert import UNDO, Expert, without_undo
from hackmatrix_rl.search._guide import ExpertGuide, Guide
from hackmatrix_rl.search._imagined import Legal, PerAction
from hackmatrix_rl.search._streams import ImaginedStream, RolloutStream
from hackmatrix_rl.search._unseen import draw_unseen
from hackmatrix_rl.system.batching import Chance, flat_vmap

ARMS = 5
"""Number of actions that get rollouts."""
HALVINGS = 3
"""Rounds of sequential halving: 5 actions, then 3, then 2."""
LEAST_ROLLOUTS = ARMS * HALVINGS
_FAR_BEHIND = 0.6
"""An action whose prior score is lower than the best by more than this gets no rollouts."""


class Arms(eqx.Module):
    """The statistics of each action in a search.

    The mean of a few rollouts is noisy: without the prior scores, a search with few rollouts plays
    worse than its guide.
    """

    opinions: PerAction  #: The prior scores, relative to the best action.
    sums: PerAction  #: The sums of the results.
    visits: Int32[Array, " num_actions"]  #: The numbers of rollouts.
    kept: Legal  #: Whether the action is still considered.

    def means(self) -> PerAction:
        """The mean result of each action; 0 without a rollout."""
        return self.sums / jnp.maximum(self.visits, 1).astype(jnp.float32)

    def ranking(self) -> PerAction:
        """The mean result plus the prior score; -inf for actions that were dropped."""
        return jnp.where(self.kept, self.means() + self.opinions, -jnp.inf)

    def best(self, number: Int32[Array, ""]) -> "Arms":
        """Keeps only the `number` best actions."""
        ranking = self.ranking()
        places = np.arange(NUM_ACTIONS)
        before = (ranking[None, :] > ranking[:, None]) | (
            (ranking[None, :] == ranking[:, None]) & (places[None, :] < places[:, None])
        )
        rank = jnp.sum(before, axis=1, dtype=jnp.int32)
        return replace(self, kept=self.kept & (rank < number))


@final
class RolloutSearch(GameAgent):
    """Compares the best few actions by imagined games within the stage (rollouts).

    The best five actions by the guide's prior share the rollouts by sequential halving: each third
    of the rollouts eliminates the worse half. Every game resamples the hidden information, so the
    search is fair. The guide decides about UNDO.

    Source: Karnin, Koren and Somekh 2013, "Almost optimal exploration in multi-armed bandits".
    """

    config: GameConfig = eqx.field(static=True)  #: Sizes and league of the game.
    guide: Guide  #: Prior, policy and leaf value.
    rollouts: int = eqx.field(static=True)  #: Imagined games for one move, at least 15.

    def __init__(self, player: Expert | Guide, rollouts: int = 30) -> None:
        """A search guided by `player`; an `Expert` becomes an `ExpertGuide`.

        Raises:
            ValueError: there are too few rollouts.
        """
        if not isinstance(rollouts, int) or rollouts < LEAST_ROLLOUTS:
            raise ValueError(
                f"rollouts must be an integer of at least {LEAST_ROLLOUTS}, not {rollouts!r}"
            )
        self.guide = ExpertGuide.from_expert(player) if isinstance(player, Expert) else player
        self.config = self.guide.config
        self.rollouts = rollouts

    def think(
        self, observation: PyTree[Array], mask: Legal, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Searches a `State`; the thought has the mean result and the visits of each action."""
        chance = Chance.from_key(key)
        position = observation.position
        others = without_undo(mask)
        undo = self.guide.undoes(observation, mask, chance=chance.fold_in(RolloutStream.UNDO))
        wanted = others & ~undo
        arms = self._opinions(position, wanted, chance=chance.fold_in(RolloutStream.OPINIONS))
        arms = self._halve(position, arms, chance=chance.fold_in(RolloutStream.ROLLOUTS))
        choice = jnp.argmax(arms.ranking()).astype(jnp.int32)
        searched = arms.visits > 0
        result = jnp.where(searched[choice], arms.means()[choice], self.guide.leaf_value(position))
        results = jnp.where(searched, arms.means(), jnp.nan)
        thought = self.guide.thought(result, results, arms.visits)
        return jnp.where(undo, UNDO, choice), carry, thought

    def _opinions(self, position: Position, legal: Legal, *, chance: Chance) -> Arms:
        """The arms before the first rollout."""
        seen = draw_unseen(position, chance=chance.fold_in(ImaginedStream.UNSEEN))
        opinions = self.guide.prefer(seen, legal, chance=chance.fold_in(ImaginedStream.PLAY))
        opinions = jnp.where(legal, opinions, -jnp.inf)
        behind = jnp.where(legal, opinions - jnp.max(opinions), -jnp.inf)
        sums, visits = jnp.zeros(NUM_ACTIONS, jnp.float32), jnp.zeros(NUM_ACTIONS, jnp.int32)
        kept = legal & (behind >= -_FAR_BEHIND)
        return Arms(behind, sums, visits, kept).best(jnp.int32(ARMS))

    def _halve(self, position: Position, arms: Arms, *, chance: Chance) -> Arms:
        seats = jnp.arange(self.rollouts // HALVINGS, dtype=jnp.int32)

        def one(each: tuple[Array, ...], shared: tuple[Guide, Position, Chance]) -> Array:
            (row, action, wanted), (guide, position, chance) = each, shared
            chance = chance.fold_in(row)
            seen = draw_unseen(position, chance=chance.fold_in(ImaginedStream.UNSEEN))
            play = chance.fold_in(ImaginedStream.PLAY)
            return guide.roll_out(seen, action, wanted, chance=play)

        def halve(number: Int32[Array, ""], arms: Arms) -> Arms:
            left = jnp.sum(arms.kept, dtype=jnp.int32)
            order = jnp.argsort(-arms.ranking()).astype(jnp.int32)
            # A row is one game for each action, with common random numbers.
            rows, places = jnp.divmod(seats, jnp.maximum(left, 1))
            actions = order[places]
            wanted = jnp.broadcast_to(left > 1, seats.shape)
            shared = (self.guide, position, chance.fold_in(number))
            results = flat_vmap(one, (rows, actions, wanted), shared)
            one_hot = (actions[:, None] == np.arange(NUM_ACTIONS)[None, :]) & wanted[:, None]
            sums = arms.sums + jnp.sum(jnp.where(one_hot, results[:, None], 0.0), axis=0)
            visits = arms.visits + jnp.sum(one_hot, axis=0, dtype=jnp.int32)
            return replace(arms, sums=sums, visits=visits).best((left + 1) // 2)

        return jax.lax.fori_loop(0, HALVINGS, halve, arms)
