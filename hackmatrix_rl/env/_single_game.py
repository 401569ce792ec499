"""A game as pure functions of one state, and the environment that plays a batch of it."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, Shaped

from hackmatrix_rl.env._environment import (
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Features,
    Timestep,
    check_max_steps,
    flat_features,
)
from hackmatrix_rl.env._spaces import ActionSpace, Discrete
from hackmatrix_rl.system.batching import select
from hackmatrix_rl.system.errors import instance, whole

GameState = TypeVar("GameState")
Action = Shaped[Array, "*action"]


class Played(NamedTuple):
    """The result of an action.

    Attributes:
        state: the state after the action, before any reset.
        reward: the reward of the action.
        terminated: whether the rules ended the episode.
        truncated: whether a limit outside of the rules ended the episode.
    """

    state: PyTree[Array]
    reward: Float32[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""] | bool = False


class SingleGame(eqx.Module, Generic[GameState]):
    """One game as pure functions of its state. `Batched` makes an `Environment` of it.

    A game does not reset itself, count steps or sum rewards: `Batched` does.
    """

    @property
    def num_actions(self) -> int:
        """Number of discrete actions. A game defines it, or `actions`."""
        if type(self).actions is SingleGame.actions:
            raise TypeError(
                f"{type(self).__name__} has no actions; expected a property num_actions, such as "
                "2, or actions, such as hm.Box((-1.0,), (1.0,))"
            )
        if not isinstance(self.actions, Discrete):
            raise TypeError(f"{type(self).__name__}: the actions {self.actions} have no count")
        return self.actions.n

    @property
    def actions(self) -> ActionSpace:
        """The space of actions; by default `Discrete(num_actions)`."""
        return Discrete(self.num_actions)

    @abstractmethod
    def start(self, *, key: Key[Array, ""]) -> GameState:
        """A new game."""

    @abstractmethod
    def observe(self, state: GameState) -> PyTree[Array]:
        """The observation of the player."""

    @abstractmethod
    def play(self, state: GameState, action: Action, *, key: Key[Array, ""]) -> Played:
        """Takes one action.

        Args:
            state: the state before the action.
            action: the action, of `actions`. The game defines the effect of an illegal one.
            key: source of randomness.
        """

    def legal(self, state: GameState) -> Bool[Array, " mask_size"]:
        """The legal actions; by default all."""
        return self.actions.every()

    @property
    def truncates(self) -> bool:
        """Whether `Played.truncated` can be true; by default false."""
        return False

    @property
    def title(self) -> str:
        """The display name of the game; by default the name of the class."""
        return type(self).__name__

    @property
    def longest_dependence(self) -> int | None:
        """As in `Environment`; by default `None`: unknown."""
        return None

    def render(self, state: GameState) -> str | None:
        """The game as text, with lines joined by newlines; `None`, the default, without a text.

        It is called outside of `jax.jit`, so it may use Python and NumPy.
        """
        return None

    def draw(self, state: GameState) -> Any:
        """The game as a picture, uint8 `[height, width, 3]`; `None`, the default, without one.

        It is called outside of `jax.jit`. A picture is shown instead of the text.
        """
        return None

    @property
    def encode(self) -> Callable[[PyTree], Features]:
        """A function from an observation to features.

        By default, a single array with three axes is a board with channels last, and any other
        observation becomes a vector. Return a `TokenFeatures` for a sequence of tokens.
        """
        seen = jax.tree.leaves(jax.eval_shape(self._first_look))
        return board_features if [leaf.ndim for leaf in seen] == [3] else flat_features

    def _first_look(self) -> PyTree[Array]:
        return self.observe(self.start(key=jax.random.key(0)))


def board_features(observation: PyTree) -> Features:
    """Features of an observation that is one array, a board with channels last."""
    (board,) = jax.tree.leaves(observation)
    return Features(flat=jnp.zeros(0, jnp.float32), grid=board.astype(jnp.float32))


@dataclass(frozen=True)
class TokenFeatures:
    """Features of an observation that is a vector of tokens: a board of one row, one-hot.

    A game of tokens returns one as `SingleGame.encode`. A number out of range becomes zeros.

    Attributes:
        vocabulary: number of tokens, which are 0 to `vocabulary - 1`.

    Raises:
        TypeError: `vocabulary` is not an integer.
        ValueError: `vocabulary` is less than 1.
    """

    vocabulary: int

    def __post_init__(self) -> None:
        whole("vocabulary", self.vocabulary)

    def __call__(self, observation: PyTree) -> Features:
        """The features of one observation.

        Raises:
            ValueError: the observation is not one vector of integers.
        """
        leaves = jax.tree.leaves(observation)
        if [leaf.ndim for leaf in leaves] != [1] or not jnp.issubdtype(
            leaves[0].dtype, jnp.integer
        ):
            shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves]
            raise ValueError(
                f"an observation of {', '.join(shapes)} has no tokens; expected one vector of "
                "integers"
            )
        shown = jax.nn.one_hot(leaves[0], self.vocabulary, dtype=jnp.float32)
        return Features(flat=jnp.zeros(0, jnp.float32), grid=shown[None])


class BatchedState(eqx.Module, Generic[GameState]):
    """The state of a batch of games."""

    games: GameState  #: The games; each leaf has a leading `num_envs` axis.
    total_reward: Float32[Array, "*num_envs"]  #: Undiscounted return of the current episodes.
    length: Int32[Array, "*num_envs"]  #: Steps of the current episodes.


@final
class Batched(Environment, Generic[GameState]):
    """A batch of games of one kind that reset themselves.

    Attributes:
        game: the game.
        max_steps: number of steps after which an episode is truncated; `None` for no limit besides
            the game's own.

    Raises:
        TypeError: `game` is not a `SingleGame`, or `max_steps` is not an integer.
        ValueError: `max_steps` is out of range.
    """

    game: SingleGame[GameState]
    max_steps: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        instance("game", self.game, SingleGame, "hm.CliqueGame()")
        if self.max_steps is not None:
            check_max_steps(self.max_steps)

    @property
    def spec(self) -> EnvSpec:
        seen = jax.eval_shape(self.game._first_look)
        return EnvSpec(self.game.actions, seen, encode=self.game.encode)

    @property
    def truncates(self) -> bool:
        """Whether the game or `max_steps` truncates episodes."""
        return self.game.truncates or self.max_steps is not None

    @property
    def title(self) -> str:
        """The game's title."""
        return self.game.title

    @property
    def longest_dependence(self) -> int | None:
        """The game's longest dependence."""
        return self.game.longest_dependence

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[BatchedState[GameState], Timestep]:
        return jax.vmap(lambda key: self._begin(self.game.start(key=key)))(keys)

    def restart(
        self, state: BatchedState[GameState], games: GameState
    ) -> tuple[BatchedState[GameState], Timestep]:
        """Starts an episode from each of the given games, in the environments of `state`."""
        return jax.vmap(self._begin)(games)

    def step(
        self,
        state: BatchedState[GameState],
        actions: Shaped[Array, "num_envs *action"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[BatchedState[GameState], Timestep]:
        """Plays one action in each game, and resets the games that ended."""
        self.game.actions.check(actions, keys)
        return jax.vmap(self._step)(state, actions, keys)

    def render(self, state: BatchedState[GameState], game: int = 0) -> str | None:
        return self.game.render(jax.tree.map(lambda leaf: leaf[game], state.games))

    def draw(self, state: BatchedState[GameState], game: int = 0) -> Any:
        return self.game.draw(jax.tree.map(lambda leaf: leaf[game], state.games))

    def final_state(
        self,
        before: BatchedState[GameState],
        actions: Shaped[Array, "num_envs *action"],
        keys: Key[Array, " num_envs"],
        after: BatchedState[GameState],
    ) -> BatchedState[GameState]:
        def play(game: GameState, action: Action, key: Key[Array, ""]) -> PyTree[Array]:
            return self.game.play(game, action, key=jax.random.split(key)[0]).state

        games = jax.vmap(play)(before.games, actions, keys)
        return BatchedState(games, before.total_reward, before.length + 1)

    def _begin(self, game: GameState) -> tuple[BatchedState[GameState], Timestep]:
        state = BatchedState(game, jnp.float32(0), jnp.int32(0))
        no = jnp.bool_(False)
        return state, self._timestep(state, state, jnp.float32(0), no, no)

    def _step(
        self, state: BatchedState[GameState], action: Action, key: Key[Array, ""]
    ) -> tuple[BatchedState[GameState], Timestep]:
        play_key, start_key = jax.random.split(key)
        played = self.game.play(state.games, action, key=play_key)
        reward = jnp.asarray(played.reward).astype(jnp.float32)
        after = BatchedState(played.state, state.total_reward + reward, state.length + 1)
        terminated = jnp.asarray(played.terminated)
        truncated = jnp.asarray(played.truncated)
        if self.max_steps is not None:
            truncated = truncated | (after.length >= self.max_steps)
        truncated = truncated & ~terminated
        fresh = BatchedState(self.game.start(key=start_key), jnp.float32(0), jnp.int32(0))
        shown = select(terminated | truncated, fresh, after)
        return shown, self._timestep(shown, after, reward, terminated, truncated)

    def _timestep(
        self,
        shown: BatchedState[GameState],
        last: BatchedState[GameState],
        reward: Float32[Array, ""],
        terminated: Bool[Array, ""],
        truncated: Bool[Array, ""],
    ) -> Timestep:
        return Timestep(
            observation=self.game.observe(shown.games),
            mask=self.game.legal(shown.games),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            last_observation=self.game.observe(last.games),
            last_mask=self.game.legal(last.games),
            terms={},
            episode=EpisodeStatistics(total_reward=last.total_reward, length=last.length),
        )
