"""Guides of a rollout search: a prior over actions, a policy, and a leaf value."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.batching import Chance, side_by_side
from hackmatrix_rl.game import NUM_ACTIONS, GameConfig, Position
from hackmatrix_rl.search._expert import Expert
from hackmatrix_rl.search._imagined import imagine, playing
from hackmatrix_rl.search._weights import EvaluationWeights, WinWeights
from hackmatrix_rl.search._win_probability import win_probability


class Guide(eqx.Module):
    """The prior, the policy and the leaf value of a rollout search, for one game.

    Its fields are arrays, or static. `NetworkGuide` asks a network, `ExpertGuide` the expert.

    Attributes:
        config: sizes and league of the game.
    """

    config: eqx.AbstractVar[GameConfig]

    @abstractmethod
    def prefer(
        self, position: Position, legal: Bool[Array, " num_actions"], *, chance: Chance
    ) -> Float32[Array, " num_actions"]:
        """The prior score of each action; the search considers the best few.

        Args:
            position: the present one.
            legal: the actions that an opinion is wanted of; UNDO is not among them.
            chance: source of random words.

        Returns:
            The opinions in win probability, up to a constant of the position; those of other
            actions mean nothing.
        """

    @abstractmethod
    def roll_out(
        self,
        position: Position,
        action: Int32[Array, ""],
        wanted: Bool[Array, ""],
        *,
        chance: Chance,
    ) -> Float32[Array, ""]:
        """Plays one imagined game that begins with an action.

        Args:
            position: before it.
            action: not UNDO.
            wanted: whether anybody asks; otherwise nothing needs to be played.
            chance: source of random words.

        Returns:
            How likely a victory is after it, discounted.
        """

    @abstractmethod
    def win_probability(self, position: Position) -> Float32[Array, ""]:
        """The win probability in a position, without a search."""


@final
class ExpertGuide(Guide):
    """The expert's two-move evaluation as prior, its play, and a table as leaf value.

    Attributes:
        config: sizes and league of the game.
        expert: it plays the imagined games.
        leaf: weights of the win probability at the start of a stage.
        most_moves: moves after which an imagined game ends.
        discount: by which a victory loses worth with each move, so that no search dawdles.
        opinion: what a point of the evaluation is worth in win probability.
    """

    config: GameConfig = eqx.field(static=True)
    expert: Expert
    leaf: WinWeights
    most_moves: int = eqx.field(static=True, default=40)
    discount: float = eqx.field(static=True, default=0.997)
    opinion: float = eqx.field(static=True, default=0.02)

    @staticmethod
    def of(expert: Expert) -> "ExpertGuide":
        """The guide of an expert, with the package's table for the league."""
        return ExpertGuide(expert.config, expert, WinWeights.shipped(expert.config.league))

    def prefer(
        self, position: Position, legal: Bool[Array, " num_actions"], *, chance: Chance
    ) -> Float32[Array, " num_actions"]:
        """0.3 times the value of the result, plus 0.7 times that of its best successor."""

        def one(
            each: tuple[Array, Array], shared: tuple[EvaluationWeights, Position, Chance]
        ) -> Array:
            (action, legal), (weights, position, chance) = each, shared
            game = playing(position, action, legal.astype(jnp.int32))
            game = imagine(self.config, game, weights, chance=chance.fold_in(action))
            stops = game.completed | game.died
            return jnp.where(stops, game.worth, 0.3 * game.worth + 0.7 * game.best)

        actions = jnp.arange(NUM_ACTIONS, dtype=jnp.int32)
        shared = (self.expert.weights, position, chance)
        worth: Array = side_by_side(one, (actions, legal), shared)
        return self.opinion * worth

    def roll_out(
        self,
        position: Position,
        action: Int32[Array, ""],
        wanted: Bool[Array, ""],
        *,
        chance: Chance,
    ) -> Float32[Array, ""]:
        """Plays the expert to the end of the stage; the table gives the win probability."""
        moves = jnp.where(wanted, self.most_moves, 0)
        game = imagine(
            self.config, playing(position, action, moves), self.expert.weights, chance=chance
        )
        at_end = win_probability(self.config, game.position, self.leaf, started=game.completed)
        at_end = jnp.where(game.completed, at_end, _UNFINISHED * at_end)
        later = self.discount ** jnp.maximum(game.moves - 1, 0).astype(jnp.float32)
        return jnp.where(game.won, 1.0, at_end * later)

    def win_probability(self, position: Position) -> Float32[Array, ""]:
        """The win probability of the table, made for starts of stages."""
        return win_probability(self.config, position, self.leaf, started=jnp.bool_(False))


_UNFINISHED = 0.8
"""Factor on the table's value for a position in the middle of a stage."""
