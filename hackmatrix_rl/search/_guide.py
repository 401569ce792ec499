"""Guides of a rollout search: a prior over actions, a policy, and a leaf value."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic, WithAuxiliaryHead
from hackmatrix_rl.batching import Chance, one_round_loop, select, side_by_side
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.game import NUM_ACTIONS, GameConfig, Position, allowed, attempt, set_up_stage
from hackmatrix_rl.search._evaluation import win_probability
from hackmatrix_rl.search._expert import Expert
from hackmatrix_rl.search._imagined import Legal, PerAction, imagine, playing
from hackmatrix_rl.search._weights import EvaluationWeights, WinWeights

Action = Int32[Array, ""]
Flag = Bool[Array, ""]


def check_memoryless(policy: ActorCritic) -> None:
    """Raises a ValueError for a network with memory, which cannot evaluate imagined games."""
    if jax.tree.leaves(policy.initial_carry()):
        raise ValueError(
            "a network with a memory cannot search: it knows the real game, not imagined ones. "
            "Use one without, such as cells"
        )


class Guide(eqx.Module):
    """The prior, the policy and the leaf value of a rollout search, for one game.

    Its fields are arrays, or static. `NetworkGuide` asks a network, `ExpertGuide` the expert.
    """

    config: eqx.AbstractVar[GameConfig]

    @abstractmethod
    def prefer(self, position: Position, legal: Legal, *, chance: Chance) -> PerAction:
        """The prior score of each action; the search considers the best few.

        Scores are in win probability, up to a constant of the position. Those of actions that are
        not in `legal` mean nothing; UNDO never is.
        """

    @abstractmethod
    def roll_out(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> Float32[Array, ""]:
        """The discounted win probability after an imagined game that begins with an action.

        The action is not UNDO. Nothing needs to be played unless the result is `wanted`.
        """

    @abstractmethod
    def win_probability(self, position: Position) -> Float32[Array, ""]:
        """The win probability in a position, without a search."""


@final
class ExpertGuide(Guide):
    """The expert's two-move evaluation as prior, its play, and a table as leaf value."""

    config: GameConfig = eqx.field(static=True)  #: Sizes and league of the game.
    expert: Expert  #: It plays the imagined games.
    leaf: WinWeights  #: Weights of the win probability at the start of a stage.
    #: Moves after which an imagined game ends.
    most_moves: int = eqx.field(static=True, default=40)
    #: By which a victory loses worth with each move, so that no search dawdles.
    discount: float = eqx.field(static=True, default=0.997)
    #: What a point of the evaluation is worth in win probability.
    opinion: float = eqx.field(static=True, default=0.02)

    @staticmethod
    def of(expert: Expert) -> "ExpertGuide":
        """The guide of an expert, with the package's table for the league."""
        return ExpertGuide(expert.config, expert, WinWeights.shipped(expert.config.league))

    def prefer(self, position: Position, legal: Legal, *, chance: Chance) -> PerAction:
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
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
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


class Walk(eqx.Module):
    """An imagined game that a network plays; the fields are as in `Imagined`, `action` is next."""

    position: Position
    action: Int32[Array, ""]
    moves_left: Int32[Array, ""]
    moves: Int32[Array, ""]
    completed: Bool[Array, ""]
    won: Bool[Array, ""]


@final
class NetworkGuide(Guide):
    """A memoryless network as the policy and the leaf value of imagined games.

    A stage that is completed is set up before the network's head for the victory judges it.
    """

    config: GameConfig = eqx.field(static=True)
    environment: HackMatrix  #: The one that the network reads.
    policy: WithAuxiliaryHead  #: The network.
    most_moves: int = eqx.field(static=True)  #: Moves after which an imagined game ends.
    #: By which a victory loses worth with each move, so that no search dawdles.
    discount: float = eqx.field(static=True)
    #: What a unit of log-probability is worth in win probability.
    opinion: float = eqx.field(static=True)

    def __init__(
        self,
        environment: HackMatrix,
        policy: ActorCritic,
        *,
        most_moves: int = 40,
        discount: float = 0.997,
        opinion: float = 0.03,
    ) -> None:
        """Takes a trained network, and the environment that it was trained in.

        Raises:
            ValueError: the network has a memory, or no head for the victory.
        """
        check_memoryless(policy)
        if not isinstance(policy, WithAuxiliaryHead) or policy.auxiliary.won is None:
            raise ValueError(
                "the network has no head for the victory, which judges imagined games. Train one "
                "with --aux-victory --aux-coefficient 0.1"
            )
        self.config = environment.config
        self.environment = environment
        self.policy = policy
        self.most_moves = most_moves
        self.discount = discount
        self.opinion = opinion

    def prefer(self, position: Position, legal: Legal, *, chance: Chance) -> PerAction:
        logits, _ = self._look(position)
        return self.opinion * jax.nn.log_softmax(jnp.where(legal, logits, -1e9))

    def roll_out(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> Float32[Array, ""]:
        """Plays the network to the end of the stage; its head gives the win probability."""
        no = jnp.bool_(False)
        moves = jnp.where(wanted, self.most_moves, 0).astype(jnp.int32)
        start = Walk(position, action, moves, jnp.int32(0), no, no)
        walk = one_round_loop(
            lambda walk, given: walk.moves_left > 0,
            lambda walk, given: _walk_on(walk, *given),
            start,
            (self, chance.fold_in(0)),
            share=_SHARE,
            least=_LEAST,
        )
        after = select(
            walk.completed & ~walk.won,
            set_up_stage(walk.position, chance=chance.fold_in(1)),
            walk.position,
        )
        discount = self.discount ** jnp.maximum(walk.moves - 1, 0).astype(jnp.float32)
        worth = jnp.where(walk.won, 1.0, self.win_probability(after))
        return jnp.where(after.player.hp == 0, 0.0, worth * discount)

    def win_probability(self, position: Position) -> Float32[Array, ""]:
        _, logit = self._look(position)
        return jax.nn.sigmoid(logit)

    def choose(self, position: Position) -> Int32[Array, ""]:
        """The network's likeliest move."""
        legal = allowed(position, can_undo=jnp.bool_(False))
        logits, _ = self._look(position)
        return MaskedCategorical(logits, legal).mode()

    def _look(self, position: Position) -> tuple[PerAction, Float32[Array, ""]]:
        """The logits of the actions, and of the victory."""
        policy = self.policy
        seen = self.environment.observe_position(position)
        hidden, _ = policy.trunk(seen, policy.initial_carry())
        won = policy.auxiliary.win_logit(hidden)
        assert won is not None  # checked at construction
        return policy.heads(hidden)[0], won


_SHARE, _LEAST = 32, 32
"""The share and the least number of imagined games that go on together: few, since a round with the
network takes long, and towards the end of an evaluation few games are left."""


def _walk_on(walk: Walk, guide: NetworkGuide, chance: Chance) -> Walk:
    """The game after its next move, and what the network would do then."""
    after, event = attempt(walk.position, walk.action, chance=chance.fold_in(walk.moves))
    over = event.completed | (after.player.hp == 0)
    return Walk(
        position=after,
        action=guide.choose(after),
        moves_left=jnp.where(over, 0, walk.moves_left - 1),
        moves=walk.moves + 1,
        completed=event.completed,
        won=event.won,
    )
