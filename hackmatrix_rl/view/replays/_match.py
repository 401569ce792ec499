"""A game that is played move by move, and an agent's opinions of its positions."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import HackMatrix, SingleGame, env_keys, start_key, step_keys
from hackmatrix_rl.evaluation import Agent, PolicyAgent, Thought, read_by, thinking
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    TERM_NAMES,
    Action,
    GameConfig,
    Outcome,
    State,
    legal_actions,
    new_game,
    play,
)
from hackmatrix_rl.system import compiling
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._frame_of import frame_of

Seed = tuple[int, int]
"""The two 32-bit words of a game's random key."""

WON, DIED, ILLEGAL, CUT_OFF = "won", "died", "no legal action", "cut off"
"""How a game ends."""

MOST_SNAPSHOTS = 1_000_000
"""Most snapshots for UNDO in all positions of a game: 0.4 GB, or 0.7 GB with most enemies."""


@dataclass(frozen=True)
class Moment:
    """A position of a game, and the move that led to it."""

    state: State
    mask: np.ndarray  #: The legal actions.
    number: int  #: The number of moves before it.
    action: Action | None  #: The move that led here; `None` at the start.
    terms: dict[str, float]  #: The reward terms of that move, by name.
    #: How the game ended here (`"won"`, `"died"`, `"no legal action"`, `"cut off"`), or `None`
    #: before the end.
    end: str | None

    @cached_property
    def frame(self) -> Frame:
        """The position for drawing."""
        return frame_of(self.state)

    @property
    def reward(self) -> float:
        """The reward of the move that led here."""
        return float(np.float32(sum(map(np.float32, self.terms.values()))))

    @property
    def legal(self) -> tuple[Action, ...]:
        """The legal actions; none if the game has ended."""
        return () if self.end else tuple(action for action in Action if self.mask[action])


class Match:
    """One game of HackMatrix that a person, an agent or both play move by move.

    Equal seeds and moves give equal games, also in `evaluate`: `Match.start(seed)` is the first
    game of `evaluate(..., key=jax.random.key(seed))`.

    Args:
        seed: the two words of the game's random key, each below 2**32.
        config: the sizes of the game; by default `GameConfig()`.
        max_steps: number of moves after which the game is cut off; `None` for no limit.

    Attributes:
        moments: all positions so far, from the start. Each stores its history, so a game is also
            cut off after `most_moves(config)`.
    """

    def __init__(
        self, seed: Seed, *, config: GameConfig | None = None, max_steps: int | None = None
    ) -> None:
        self.seed = seed
        self.config = GameConfig() if config is None else config
        self.max_steps = max_steps
        state, mask = _begin(self.config, self.key)
        self.moments = [Moment(state, np.asarray(mask), 0, None, {}, None)]

    @classmethod
    def start(
        cls,
        seed: int,
        *,
        game: int = 0,
        config: GameConfig | None = None,
        max_steps: int | None = None,
    ) -> "Match":
        """Game number `game` of an evaluation with this seed."""
        return cls(game_seed(jax.random.key(seed), game), config=config, max_steps=max_steps)

    @classmethod
    def seen(cls, moments: Sequence[Moment], config: GameConfig) -> "Match":
        """A game observed elsewhere. It cannot be continued, because its seed is unknown."""
        match = cls.__new__(cls)
        match.seed, match.config, match.max_steps = (0, 0), config, None
        last = moments[-1]
        match.moments = [*moments[:-1], replace(last, end=last.end or CUT_OFF)]
        return match

    def until(self, number: int) -> "Match":
        """A copy with the first `number` moves, which can be continued from there.

        Raises:
            ConfigError: the game has fewer moves.
        """
        if not 0 <= number <= self.now.number:
            raise ConfigError(f"move {number} does not exist; the game has {self.now.number} moves")
        part = copy(self)
        part.moments = self.moments[: number + 1]
        return part

    @property
    def key(self) -> Key[Array, ""]:
        """The game's random key."""
        words = jnp.array(self.seed, jnp.uint32)
        return jax.random.wrap_key_data(words, impl="threefry2x32")

    @property
    def now(self) -> Moment:
        """The latest position."""
        return self.moments[-1]

    @property
    def actions(self) -> tuple[Action, ...]:
        """The moves so far."""
        return tuple(each.action for each in self.moments if each.action is not None)

    @property
    def total_reward(self) -> float:
        """The return so far, with the game's default reward."""
        return float(sum(np.float32(each.reward) for each in self.moments[1:]))

    def prepare(self, say: Callable[[str], None] = lambda line: None) -> None:
        """Compiles the step with a move that is discarded; `say` reports how long it took."""
        with compiling(say):
            _advance(self.config, self.now.state, jnp.int32(0), self.key)

    def play(self, action: Action | int) -> Moment:
        """Plays a move and returns the position after it.

        Raises:
            ConfigError: the move is illegal, or the game has ended. The game is unchanged then.
        """
        now = self.now
        if now.end is not None:
            raise ConfigError(f"the game has ended ({now.end}) after {now.number} moves")
        if not 0 <= action < NUM_ACTIONS:
            raise ConfigError(f"action {action} does not exist; actions are 0 to {NUM_ACTIONS - 1}")
        # Without any legal action, every action ends the game (rules, section 4).
        if now.mask.any() and not now.mask[action]:
            legal = " ".join(each.label for each in now.legal)
            raise ConfigError(f"{Action(action).label} is not legal here; legal: {legal}")
        state, mask, outcome = _advance(
            self.config, now.state, jnp.int32(action), step_keys(self.key, now.number)[1]
        )
        terms = np.asarray(outcome.terms.as_array())
        found = Moment(
            state=state,
            mask=np.asarray(mask),
            number=now.number + 1,
            action=Action(action),
            terms=dict(zip(TERM_NAMES, map(float, terms), strict=True)),
            end=self._end(outcome, now.number + 1),
        )
        self.moments.append(found)
        return found

    def _end(self, outcome: Outcome, moves: int) -> str | None:
        if not outcome.legal:
            return ILLEGAL
        if outcome.won or outcome.died:
            return WON if outcome.won else DIED
        limits = (self.max_steps, most_moves(self.config))
        return CUT_OFF if any(most is not None and moves >= most for most in limits) else None


def most_moves(config: GameConfig) -> int:
    """The most moves of a game in memory, inversely proportional to the length of its history."""
    return MOST_SNAPSHOTS // config.history


def game_seed(key: Key[Array, ""], game: int = 0) -> Seed:
    """The seed of one game of an evaluation with this key."""
    words = jax.random.key_data(env_keys(key, 1, first=game)[0])
    return int(words[0]), int(words[1])


@eqx.filter_jit
def _begin(config: GameConfig, key: Key[Array, ""]) -> tuple[State, Bool[Array, " num_actions"]]:
    state = new_game(config, key=start_key(key))
    return state, legal_actions(config, state)


@eqx.filter_jit
def _advance(
    config: GameConfig, state: State, action: Int[Array, ""], key: Key[Array, ""]
) -> tuple[State, Bool[Array, " num_actions"], Outcome]:
    state, outcome = play(config, state, action, key=key)
    return state, legal_actions(config, state), outcome


Choice = TypeVar("Choice", bound=int | str)


@dataclass(frozen=True)
class Opinion(Generic[Choice]):
    """An agent's action in a position, and why. Unreported fields are empty or `None`."""

    action: Choice
    probabilities: dict[Choice, float]  #: Probabilities of the legal actions, in descending order.
    value: float | None  #: The predicted discounted return.
    win_probability: float | None  #: The predicted probability of a victory.
    search_values: dict[Choice, float]  #: The value of each action in the search.
    search_visits: dict[Choice, int]  #: The number of visits of each action in the search.


class Mind:
    """An agent or a network that follows a game and updates its memory with each move.

    It samples as in `evaluate`: an agent whose opinions are played plays the same game as there.
    Others may play the moves of the game, too. By default the player reads the compact observation.
    """

    def __init__(
        self, player: Agent | ActorCritic, match: Match, *, environment: HackMatrix | None = None
    ) -> None:
        self._player = PolicyAgent(player) if isinstance(player, ActorCritic) else player
        self._match = match
        self._environment = HackMatrix(match.config) if environment is None else environment
        self._carry = self._player.initial_carry()
        self._opinions: list[Opinion[Action]] = []

    def opinion(self, number: int | None = None) -> Opinion[Action]:
        """The agent's opinion after `number` moves; by default of the latest position.

        Computes the opinions of earlier positions first, because the memory needs them.
        """
        number = self._match.now.number if number is None else number
        for seen in range(len(self._opinions), number + 1):
            moment = self._match.moments[seen]
            mask, key = jnp.asarray(moment.mask), step_keys(self._match.key, seen)[0]
            action, self._carry, thought = consider(
                self._player, self._environment, moment.state, mask, self._carry, key
            )
            legal = [each for each in Action if moment.mask[each]]
            self._opinions.append(opinion_of(Action(int(action)), thought, legal))
        return self._opinions[number]


def opinion_of(action: Choice, thought: Thought, legal: Sequence[Choice]) -> Opinion[Choice]:
    """An agent's action and thought as plain numbers, for the legal actions."""

    def by_action(numbers: Array | np.ndarray | None) -> dict[Choice, Any]:
        if numbers is None:
            return {}
        every: Any = np.asarray(numbers)
        found = {each: every[each].item() for each in legal}
        kept = {each: number for each, number in found.items() if not np.isnan(number)}
        return dict(sorted(kept.items(), key=lambda pair: -pair[1]))

    return Opinion(
        action=action,
        probabilities=by_action(thought.probabilities),
        value=None if thought.value is None else float(thought.value),
        win_probability=None if thought.win_probability is None else float(thought.win_probability),
        search_values=by_action(thought.search_values),
        search_visits=by_action(thought.search_visits),
    )


def opinion_data(opinion: Opinion[Any]) -> dict[str, Any]:
    """An opinion as JSON data."""
    lists: dict[str, Mapping[int, float]] = {
        "probabilities": opinion.probabilities,
        "values": opinion.search_values,
        "visits": opinion.search_visits,
    }
    return {
        "action": opinion.action,
        "value": None if opinion.value is None else number_data(opinion.value),
        "win": None if opinion.win_probability is None else number_data(opinion.win_probability),
        **{
            name: [[action, number_data(number)] for action, number in found.items()]
            for name, found in lists.items()
            if found
        },
    }


def number_data(number: float) -> float | int | str:
    """A number rounded to 4 decimals; NaN and infinities as text, because JSON has none."""
    if not math.isfinite(number):
        return str(number)
    return round(number, 4)


@eqx.filter_jit
def consider(
    player: Agent,
    environment: HackMatrix | SingleGame[Any],
    state: PyTree[Array],
    mask: Bool[Array, " num_actions"],
    carry: PyTree[Array],
    key: Key[Array, ""],
) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
    """A player's action in one game, its next carry, and its thought. Compiled."""
    observation = read_by(player, environment.observe(state), lambda: state)
    return thinking(player)(observation, mask, carry, key)
