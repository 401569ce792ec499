"""Games written for one player at a time, and the environment that plays many of them."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env._environment import (
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Features,
    Timestep,
    check_max_steps,
    flat_features,
)
from hackmatrix_rl.system.batching import select
from hackmatrix_rl.system.errors import check_actions, instance, whole

GameState = TypeVar("GameState")


class Played(NamedTuple):
    """The result of an action.

    Attributes:
        state: after it; at the end of an episode the last position.
        reward: of the action.
        terminated: the rules ended the episode.
        truncated: a limit that is not one of the rules cut it.
    """

    state: PyTree[Array]
    reward: Float32[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""] | bool = False


class SingleGame(eqx.Module, Generic[GameState]):
    """One game as pure functions of its state. `Batched` makes an `Environment` of it.

    A game does not reset itself, counts no steps and adds up no rewards.
    """

    @property
    @abstractmethod
    def num_actions(self) -> int:
        """Number of discrete actions."""

    @abstractmethod
    def start(self, *, key: Key[Array, ""]) -> GameState:
        """A new game."""

    @abstractmethod
    def observe(self, state: GameState) -> PyTree[Array]:
        """The observation of the player, the input of the network."""

    @abstractmethod
    def play(self, state: GameState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Takes one action.

        Args:
            state: before it.
            action: the action. What an illegal one does is the game's to define.
            key: of everything that is drawn.
        """

    def legal(self, state: GameState) -> Bool[Array, " num_actions"]:
        """The legal actions; by default all."""
        return jnp.ones(self.num_actions, bool)

    @property
    def truncates(self) -> bool:
        """Whether `Played.truncated` can be true; by default not."""
        return False

    @property
    def title(self) -> str:
        """The name of the game, for people; by default the name of the class."""
        return type(self).__name__

    @property
    def longest_dependence(self) -> int | None:
        """As in `Environment`; by default `None`: unknown."""
        return None

    def render(self, state: GameState) -> str | None:
        """The game as text, lines joined by newlines; by default `None`: it has no text.

        It is called outside of `jax.jit`, so it may use Python and NumPy.
        """
        return None

    def draw(self, state: GameState) -> Any:
        """The game as a picture, uint8 `[height, width, 3]`; by default `None`: it has none.

        It is called outside of `jax.jit`. Where there is a picture, the text is not shown.
        """
        return None

    @property
    def encode(self) -> Callable[[PyTree], Features]:
        """Turns an observation into features.

        By default an observation of one array with three axes is a board with channels last, and
        any other becomes one vector. Return a `TokenFeatures` for a sequence of tokens.
        """
        seen = jax.tree.leaves(jax.eval_shape(self._first_look))
        return board_features if [leaf.ndim for leaf in seen] == [3] else flat_features

    def _first_look(self) -> PyTree[Array]:
        return self.observe(self.start(key=jax.random.key(0)))


def board_features(observation: PyTree) -> Features:
    """The only array of an observation, as a board with channels last."""
    (board,) = jax.tree.leaves(observation)
    return Features(flat=jnp.zeros(0, jnp.float32), grid=board.astype(jnp.float32))


@dataclass(frozen=True)
class TokenFeatures:
    """The only array of an observation, a vector of tokens, as a board of one row.

    A game of tokens returns one as `SingleGame.encode`. Each token becomes the channel that is 1;
    a number that is no token sets none.

    Attributes:
        vocabulary: number of tokens, which are 0 to `vocabulary - 1`.

    Raises:
        TypeError: `vocabulary` is no whole number.
        ValueError: it is less than 1.
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
    total_reward: Float32[Array, "*num_envs"]  #: Of the current episodes.
    length: Int32[Array, "*num_envs"]  #: Steps of the current episodes.


@final
class Batched(Environment, Generic[GameState]):
    """Many games of one kind side by side, which reset themselves.

    Attributes:
        game: the game.
        max_steps: number of steps after which an episode is truncated; `None` for no limit but
            the game's own.

    Raises:
        TypeError: `game` is no `SingleGame`, or `max_steps` is no whole number.
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
        return EnvSpec(self.game.num_actions, seen, encode=self.game.encode)

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
        return jax.vmap(self._begin)(keys)

    def step(
        self,
        state: BatchedState[GameState],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[BatchedState[GameState], Timestep]:
        """Plays one action in each game, and resets finished games."""
        check_actions(actions, keys)
        return jax.vmap(self._step)(state, actions, keys)

    def render(self, state: BatchedState[GameState], game: int = 0) -> str | None:
        return self.game.render(jax.tree.map(lambda leaf: leaf[game], state.games))

    def draw(self, state: BatchedState[GameState], game: int = 0) -> Any:
        return self.game.draw(jax.tree.map(lambda leaf: leaf[game], state.games))

    def final_state(
        self,
        before: BatchedState[GameState],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
        after: BatchedState[GameState],
    ) -> BatchedState[GameState]:
        def play(game: GameState, action: Int32[Array, ""], key: Key[Array, ""]) -> PyTree[Array]:
            return self.game.play(game, action, key=jax.random.split(key)[0]).state

        games = jax.vmap(play)(before.games, actions, keys)
        return BatchedState(games, before.total_reward, before.length + 1)

    def _begin(self, key: Key[Array, ""]) -> tuple[BatchedState[GameState], Timestep]:
        state = BatchedState(self.game.start(key=key), jnp.float32(0), jnp.int32(0))
        no = jnp.bool_(False)
        return state, self._timestep(state, state, jnp.float32(0), no, no)

    def _step(
        self, state: BatchedState[GameState], action: Int32[Array, ""], key: Key[Array, ""]
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
