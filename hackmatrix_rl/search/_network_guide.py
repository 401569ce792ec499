"""Guides of a rollout search that use a network."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from hackmatrix_rl.agent import MaskedCategorical, ValueScale
from hackmatrix_rl.agent.networks import ActorCritic, WithAuxiliaryHead
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import PolicyAgent, Thought
from hackmatrix_rl.games.hackmatrix import (
    Event,
    GameConfig,
    Position,
    State,
    allowed,
    attempt,
    reward_terms,
    set_up_stage,
)
from hackmatrix_rl.search._expert import UNDO
from hackmatrix_rl.search._guide import Action, Flag, Guide
from hackmatrix_rl.search._imagined import Legal, PerAction
from hackmatrix_rl.search._streams import WalkStream
from hackmatrix_rl.system.batching import Chance, one_round_loop, select

Value = Float32[Array, ""]


def check_memoryless(policy: ActorCritic) -> None:
    """Raises a ValueError for a network with memory, which cannot evaluate imagined games."""
    if jax.tree.leaves(policy.initial_carry()):
        raise ValueError(
            "a search needs a network without memory, because a memory is of the real game, not of "
            "imagined ones. Use another network, such as cells"
        )


def _key(chance: Chance) -> Key[Array, ""]:
    return jax.random.key(chance.bits())


class _Walk(eqx.Module):
    """An imagined game that a network plays."""

    position: Position
    action: Action  #: The next one.
    moves_left: Int32[Array, ""]
    moves: Int32[Array, ""]
    completed: Flag  #: Whether the last move completed the stage, which ends the game.
    won: Flag
    total: Value  #: The discounted sum of the rewards.

    @property
    def died(self) -> Flag:
        return self.position.player.hp == 0


_SHARE, _LEAST = 32, 32
"""Width of the loop's buffer: 1/32 of the games, at least 32. Few, because an iteration with the
network is slow, and few games are left towards the end of an evaluation."""
_LEAST_LOGIT = -1e9
"""The logit of an illegal action, which has probability 0."""


class _PlayedByNetwork(Guide):
    """The prior of a network without memory, and imagined games that it plays within the stage."""

    environment: eqx.AbstractVar[HackMatrix]
    policy: eqx.AbstractVar[ActorCritic]
    most_moves: eqx.AbstractVar[int]
    discount: eqx.AbstractVar[float]
    opinion: eqx.AbstractVar[float]

    @abstractmethod
    def choose(self, position: Position, *, chance: Chance) -> Action:
        """The network's move in an imagined game."""

    @abstractmethod
    def reward(self, before: Position, after: Position, event: Event) -> Value:
        """The reward of a move in the result of the game."""

    def prefer(self, position: Position, legal: Legal, *, chance: Chance) -> PerAction:
        # A legal action may have the logit -inf, and `opinion * -inf` is NaN if `opinion` is 0.
        logits = jnp.maximum(jnp.where(legal, self.logits(position), _LEAST_LOGIT), _LEAST_LOGIT)
        return self.opinion * jax.nn.log_softmax(logits)

    def logits(self, position: Position) -> PerAction:
        """The network's logits in an imagined game."""
        seen = self.environment.observe_position(position)
        return self.policy(seen, self.policy.initial_carry())[0]

    def play(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> tuple[_Walk, Position]:
        """An imagined game, and the position after it, in the next stage if it completed one."""
        no, zero = jnp.bool_(False), jnp.int32(0)
        moves = jnp.where(wanted, self.most_moves, 0).astype(jnp.int32)
        walk = one_round_loop(
            lambda walk, given: walk.moves_left > 0,
            lambda walk, given: _walk_on(walk, *given),
            _Walk(position, action, moves, zero, no, no, jnp.float32(0)),
            (self, chance.fold_in(WalkStream.MOVES)),
            share=_SHARE,
            least=_LEAST,
        )
        goes_on = walk.completed & ~walk.won
        begun = set_up_stage(walk.position, chance=chance.fold_in(WalkStream.NEXT_STAGE))
        after = select(goes_on, begun, walk.position)
        return walk, after


def _walk_on(walk: _Walk, guide: _PlayedByNetwork, chance: Chance) -> _Walk:
    """The game after its next move, with the network's action after that."""
    chance = chance.fold_in(walk.moves)
    after, event = attempt(walk.position, walk.action, chance=chance)
    over = event.completed | (after.player.hp == 0)
    weight = guide.discount ** walk.moves.astype(jnp.float32)
    return _Walk(
        position=after,
        action=guide.choose(after, chance=chance.fold_in(_CHOICE)),
        moves_left=jnp.where(over, 0, walk.moves_left - 1),
        moves=walk.moves + 1,
        completed=event.completed,
        won=event.won,
        total=walk.total + weight * guide.reward(walk.position, after, event),
    )


_CHOICE = 2
"""The stream of a network's move; the numbers below are the game's (`ActStream`)."""


@final
class NetworkGuide(_PlayedByNetwork):
    """A network without memory as policy and leaf value of imagined games, to win.

    Results are win probabilities, by the network's head for the victory. After a completed stage,
    the head evaluates the start of the next one.
    """

    config: GameConfig = eqx.field(static=True)
    environment: HackMatrix  #: The environment, which makes the network's observations.
    policy: WithAuxiliaryHead  #: The network.
    most_moves: int = eqx.field(static=True)  #: Moves after which an imagined game ends.
    #: Discount of the result for each move, which favours short wins.
    discount: float = eqx.field(static=True)
    #: Weight of the prior: win probability per unit of log-probability.
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
        """A guide from a trained network and its environment.

        Raises:
            ValueError: the network has a memory, or no head for the victory.
        """
        check_memoryless(policy)
        if not isinstance(policy, WithAuxiliaryHead) or policy.auxiliary.won is None:
            raise ValueError(
                "the network has no head for the victory, which evaluates imagined games if the "
                "learned reward pays no victory. Train one with --aux-victory --aux-coefficient 0.1"
            )
        self.config = environment.config
        self.environment = environment
        self.policy = policy
        self.most_moves = most_moves
        self.discount = discount
        self.opinion = opinion

    def roll_out(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> Value:
        """Plays within the stage; the network's head gives the win probability."""
        walk, after = self.play(position, action, wanted, chance=chance)
        discount = self.discount ** jnp.maximum(walk.moves - 1, 0).astype(jnp.float32)
        worth = jnp.where(walk.won, 1.0, self.leaf_value(after))
        return jnp.where(walk.died, 0.0, worth * discount)

    def leaf_value(self, position: Position) -> Value:
        """The win probability by the network's head."""
        policy = self.policy
        seen = self.environment.observe_position(position)
        hidden, _ = policy.trunk(seen, policy.initial_carry())
        won = policy.auxiliary.win_logit(hidden)
        assert won is not None  # checked at construction
        return jax.nn.sigmoid(won)

    def choose(self, position: Position, *, chance: Chance) -> Action:
        """The network's likeliest move."""
        legal = allowed(position, can_undo=jnp.bool_(False))
        return MaskedCategorical(self.logits(position), legal).mode()

    def reward(self, before: Position, after: Position, event: Event) -> Value:
        """0: only the leaf value counts."""
        return jnp.float32(0)


@final
class ReturnGuide(_PlayedByNetwork):
    """A network without memory as policy and leaf value of imagined games, for the return.

    The result of an imagined game is the discounted sum of its rewards, plus the network's value
    where it ends, in standard deviations of the value's targets. The rewards are those of the
    environment in which the network was trained. Moves are sampled as in training, and UNDO is
    played where the network samples it.
    """

    config: GameConfig = eqx.field(static=True)
    environment: HackMatrix  #: The environment in which the network was trained.
    policy: ActorCritic  #: The network.
    value_scale: ValueScale  #: Units of its value.
    discount: float = eqx.field(static=True)  #: Discount of the return that its value predicts.
    most_moves: int = eqx.field(static=True)  #: Moves after which an imagined game ends.
    #: Weight of the prior: standard deviations per unit of log-probability.
    opinion: float = eqx.field(static=True)

    def __init__(
        self,
        environment: HackMatrix,
        agent: PolicyAgent,
        *,
        most_moves: int = 20,
        opinion: float = 0.03,
    ) -> None:
        """A guide from a trained agent, such as `hm.load(run).agent()`, and its environment.

        Raises:
            ValueError: the network has a memory, or the units of its value are unknown.
        """
        check_memoryless(agent.policy)
        if agent.value_scale is None or agent.gamma is None:
            raise ValueError(
                "the units of the network's value are unknown, and a search adds rewards to it: "
                "give hm.load(run).agent()"
            )
        self.config = environment.config
        self.environment = environment
        self.policy = agent.policy
        self.value_scale = agent.value_scale
        self.discount = agent.gamma
        self.most_moves = most_moves
        self.opinion = opinion

    def roll_out(
        self, position: Position, action: Action, wanted: Flag, *, chance: Chance
    ) -> Value:
        """Plays with the network, and adds its value of the position after the last move."""
        walk, after = self.play(position, action, wanted, chance=chance)
        bootstrap_value = jnp.where(walk.won | walk.died, 0.0, self._value(after))
        discount = self.discount ** walk.moves.astype(jnp.float32)
        return (walk.total + discount * bootstrap_value) / self._unit()

    def leaf_value(self, position: Position) -> Value:
        """The network's value."""
        return self._value(position) / self._unit()

    def choose(self, position: Position, *, chance: Chance) -> Action:
        """A move sampled from the network's policy."""
        legal = allowed(position, can_undo=jnp.bool_(False))
        return MaskedCategorical(self.logits(position), legal).sample(_key(chance))

    def reward(self, before: Position, after: Position, event: Event) -> Value:
        """The reward of the environment."""
        return self.environment.reward.weigh(reward_terms(before, after, event))

    def undoes(self, state: State, mask: Legal, *, chance: Chance) -> Flag:
        """Whether the network samples UNDO in the real state."""
        seen = self.environment.observe(state)  # with the history, unlike `observe_position`
        logits, _, _ = self.policy(seen, self.policy.initial_carry())
        return MaskedCategorical(logits, mask).sample(_key(chance)) == UNDO

    def thought(
        self, result: Value, results: PerAction, visits: Int32[Array, " num_actions"]
    ) -> Thought:
        unit = self._unit()
        return Thought(value=unit * result, search_values=unit * results, search_visits=visits)

    def _value(self, position: Position) -> Value:
        """The network's value, in units of reward."""
        seen = self.environment.observe_position(position)
        _, value, _ = self.policy(seen, self.policy.initial_carry())
        return self.value_scale.denormalize(value.astype(jnp.float32))

    def _unit(self) -> Value:
        """A standard deviation of the value's targets, in units of reward."""
        one, zero = jnp.float32(1), jnp.float32(0)
        return self.value_scale.denormalize(one) - self.value_scale.denormalize(zero)
