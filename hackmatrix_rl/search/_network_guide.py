"""A search with a network, which gives the first opinion, the policy and the leaf."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic, WithAuxiliaryHead
from hackmatrix_rl.batching import Chance, one_round_loop, select
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.game import GameConfig, Position, allowed, attempt, set_up_stage
from hackmatrix_rl.search._guide import Guide
from hackmatrix_rl.search._memoryless import check_memoryless


class Walk(eqx.Module):
    """An imagined game that a network plays.

    Attributes:
        position: the present one.
        action: the next move.
        moves_left: how many moves it plays at most.
        moves: how many it has played.
        completed: whether the latest move completed the stage. Then the game ends.
        won: whether that was the last stage.
    """

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

    Attributes:
        config: sizes and league of the game.
        environment: the one that the network reads.
        policy: the network.
        most_moves: moves after which an imagined game ends.
        discount: by which a victory loses worth with each move, so that no search dawdles.
        opinion: what a unit of log-probability is worth in win probability.
    """

    config: GameConfig = eqx.field(static=True)
    environment: HackMatrix
    policy: WithAuxiliaryHead
    most_moves: int = eqx.field(static=True)
    discount: float = eqx.field(static=True)
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
        """Takes a trained network.

        Args:
            environment: the one that it was trained in.
            policy: see the class.
            most_moves: see the class.
            discount: see the class.
            opinion: see the class.

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

    def prefer(
        self, position: Position, legal: Bool[Array, " num_actions"], *, chance: Chance
    ) -> Float32[Array, " num_actions"]:
        """The log-probabilities, scaled."""
        logits, _ = self._look(position)
        return self.opinion * jax.nn.log_softmax(jnp.where(legal, logits, -1e9))

    def roll_out(
        self,
        position: Position,
        action: Int32[Array, ""],
        wanted: Bool[Array, ""],
        *,
        chance: Chance,
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
        """The win probability of the network's head."""
        _, logit = self._look(position)
        return jax.nn.sigmoid(logit)

    def choose(self, position: Position) -> Int32[Array, ""]:
        """The network's likeliest move."""
        legal = allowed(position, can_undo=jnp.bool_(False))
        logits, _ = self._look(position)
        return MaskedCategorical(logits, legal).mode()

    def _look(
        self, position: Position
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""]]:
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
