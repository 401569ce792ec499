"""Guides of a rollout search: a prior over actions, a policy, and a leaf value."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.evaluation import Thought
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, GameConfig, Position, State
from hackmatrix_rl.search._expert import Expert, undoes
from hackmatrix_rl.search._imagined import Legal, PerAction, imagine, playing
from hackmatrix_rl.search._weights import EvaluationWeights, WinWeights
from hackmatrix_rl.search._win_probability import win_probability
from hackmatrix_rl.system.batching import Chance, flat_vmap

Action = Int32[Array, ""]
Flag = Bool[Array, ""]


class Guide(eqx.Module):
    """The prior, the policy and the leaf value of a rollout search, for one game.

    Results are win probabilities unless a subclass says otherwise; in their unit, differences of
    some hundredths should matter. Fields are arrays, or static.
    """

    config: eqx.AbstractVar[GameConfig]

    @abstractmethod
    def prefer(self, position: Position, legal: Legal, *, chance: Chance) -> PerAction:
        """The prior score of each action; the search considers the best few.

        Scores have the unit of results, up to a constant for the position. Scores of actions
        outside `legal` are undefined; `legal` excludes UNDO.
        """

    @abstractmethod
    def roll_out(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> Float32[Array, ""]:
        """The result of an imagined game that begins with an action, not UNDO.

        It may be undefined unless `wanted`.
        """

    @abstractmethod
    def leaf_value(self, position: Position) -> Float32[Array, ""]:
        """The expected result in a position, without a search."""

    def undoes(self, state: State, mask: Legal, *, chance: Chance) -> Flag:
        """Whether the player plays UNDO, which is not searched; by default by the expert's rules.

        It must play UNDO if nothing else is legal.
        """
        return undoes(self.config, state, mask, chance=chance)

    def thought(
        self, result: Float32[Array, ""], results: PerAction, visits: Int32[Array, " num_actions"]
    ) -> Thought:
        """The player's thought, from the results of its action and of all searched actions."""
        return Thought(win_probability=result, search_values=results, search_visits=visits)


@final
class ExpertGuide(Guide):
    """The expert's two-move evaluation as prior, its play, and `WinWeights` as leaf value."""

    config: GameConfig = eqx.field(static=True)  #: Sizes and league of the game.
    expert: Expert  #: It plays the imagined games.
    leaf: WinWeights  #: Weights of the win probability at the start of a stage.
    #: Moves after which an imagined game ends.
    most_moves: int = eqx.field(static=True, default=40)
    #: Discount of the result for each move, which favours short wins.
    discount: float = eqx.field(static=True, default=0.997)
    #: Weight of the prior: win probability per unit of heuristic value.
    opinion: float = eqx.field(static=True, default=0.02)

    @staticmethod
    def from_expert(expert: Expert) -> "ExpertGuide":
        """The guide of an expert, with the package's `WinWeights` for the league."""
        return ExpertGuide(expert.config, expert, WinWeights.shipped(expert.config.league))

    def prefer(self, position: Position, legal: Legal, *, chance: Chance) -> PerAction:
        """0.3 times the value of the result, plus 0.7 times the value of its best successor."""

        def one(
            each: tuple[Array, Array], shared: tuple[EvaluationWeights, Position, Chance]
        ) -> Array:
            (action, legal), (weights, position, chance) = each, shared
            game = playing(position, action, legal.astype(jnp.int32))
            game = imagine(self.config, game, weights, chance=chance.fold_in(action))
            stops = game.completed | game.died
            return jnp.where(stops, game.worth, 0.3 * game.worth + 0.7 * game.decision.best)

        actions = jnp.arange(NUM_ACTIONS, dtype=jnp.int32)
        shared = (self.expert.weights, position, chance)
        worth: Array = flat_vmap(one, (actions, legal), shared)
        return self.opinion * worth

    def roll_out(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> Float32[Array, ""]:
        """Plays the expert within the stage; `leaf` gives the win probability."""
        moves = jnp.where(wanted, self.most_moves, 0)
        game = imagine(
            self.config, playing(position, action, moves), self.expert.weights, chance=chance
        )
        at_end = win_probability(self.config, game.position, self.leaf, started=game.completed)
        at_end = jnp.where(game.completed, at_end, _UNFINISHED * at_end)
        later = self.discount ** jnp.maximum(game.moves - 1, 0).astype(jnp.float32)
        return jnp.where(game.won, 1.0, at_end * later)

    def leaf_value(self, position: Position) -> Float32[Array, ""]:
        return win_probability(self.config, position, self.leaf, started=jnp.bool_(False))


_UNFINISHED = 0.8
"""Factor on the win probability in the middle of a stage."""
