"""The interface of an environment to the rest of the package."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Float32, Int, Int32, Key, PyTree, UInt32

from hackmatrix_rl.env._features import ActionFeatures, FeatureSplit
from hackmatrix_rl.system import quickly_compiled
from hackmatrix_rl.system.errors import shortened, whole


class Features(eqx.Module):
    """One observation as float arrays, ready for a network."""

    flat: Float[Array, " features"]  #: Values that belong to no cell of a board.
    #: Values of each cell of the board, channels last; `None` without a board.
    grid: Float[Array, "rows cols channels"] | None = None

    def ravel(self) -> Float[Array, " all_features"]:
        """All values in one vector: first the grid, then the flat values."""
        if self.grid is None:
            return self.flat
        return jnp.concatenate([self.grid.ravel(), self.flat])


def flat_features(observation: PyTree) -> Features:
    """All arrays of an observation in one vector, as float32."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(observation)]
    return Features(flat=jnp.concatenate(leaves))


@dataclass(frozen=True)
class Encoder:
    """A function from one observation to `Features`, and the dtype of its results.

    The function computes in float32. A network under a precision policy gets the features in the
    dtype of its parameters (see `ActorCritic`).
    """

    function: Callable[[PyTree], Features]  #: The function.
    dtype: DTypeLike = jnp.float32  #: Of the features.

    def __call__(self, observation: PyTree) -> Features:
        """The features of one observation."""
        features = self.function(observation)
        if self.dtype == jnp.float32:
            return features
        cast: Features = jax.tree.map(lambda leaf: leaf.astype(self.dtype), features)
        return cast


@dataclass(frozen=True)
class EnvSpec:
    """The specification of an environment, for a network.

    Attributes:
        num_actions: number of discrete actions.
        observation: a `jax.ShapeDtypeStruct` for each leaf of one observation (no batch axis).
        encode: turns one observation into `Features`. It is called under `jax.vmap`. The spec
            holds any function as an `Encoder`.
        terms: names of the parts of the reward (see `Timestep.terms`).
        split: the parts of the features of `encode`, with which a dense first layer saves work;
            `None` if the environment has no such split.
        actions: features of single actions, for networks that embed actions; `None` if the
            environment has none.
        precompute: from one observation to the same one with intermediate results of `encode`,
            which reads both. PPO computes it once per step and stores its result in the rollout,
            instead of computing it again in each pass of learning. `None`: the same observation.

    Raises:
        ValueError: `split` belongs to another `encode`.
    """

    num_actions: int
    observation: PyTree
    encode: Callable[[PyTree], Features] = flat_features
    terms: tuple[str, ...] = ()
    split: FeatureSplit | None = None
    actions: ActionFeatures | None = None
    precompute: Callable[[PyTree], PyTree] | None = None

    def __post_init__(self) -> None:
        if callable(self.encode) and not isinstance(self.encode, Encoder):
            object.__setattr__(self, "encode", Encoder(self.encode))
        function = getattr(self.encode, "function", None)
        if self.split is not None and self.split.encode is not function:
            raise ValueError(
                "EnvSpec: split is of another encode than the spec's; use split=None, or the "
                "split of this encode"
            )

    @property
    def num_features(self) -> int:
        """Number of features of one observation: the length of `Features.ravel()`."""
        return jax.eval_shape(lambda seen: self.encode(seen).ravel(), self.observation).size

    @property
    def stored(self) -> PyTree:
        """A `jax.ShapeDtypeStruct` for each leaf of the result of `precompute`."""
        return jax.eval_shape(self.precompute or (lambda seen: seen), self.observation)


LEARNED_RETURN = "learned_return"
"""Name in `EpisodeStatistics.extra` of the sum of `Timestep.reward` over the episode.

An environment has it if the reward to learn from differs from the reward that `total_reward`
adds up."""


class EpisodeStatistics(eqx.Module):
    """Totals of the episodes that ended at this step. They mean something where `Timestep.done`.

    Attributes:
        total_reward: undiscounted return of the episode, reported as `return`. It is the sum of
            `Timestep.reward`, unless `extra` holds that sum as `learned_return`.
        length: number of steps of the episode.
        extra: further numbers of the environment, by name (stage, score, won ...).
        counts: whether the episode of this step began as every evaluated episode does. Others are
            left out of the sums of a rollout. `None`: all count.
    """

    total_reward: Float32[Array, "*num_envs"]
    length: Int32[Array, "*num_envs"]
    extra: dict[str, Float32[Array, "*num_envs"]] = eqx.field(default_factory=dict)
    counts: Bool[Array, "*num_envs"] | None = None


class Timestep(eqx.Module):
    """The result of a step of a batch of environments.

    An environment whose episode ended is already reset. There `observation` and `mask` belong to
    the first position of the next episode; `reward`, `terminated`, `truncated`,
    `last_observation`, `last_mask` and `episode` belong to the episode that ended.

    Attributes:
        observation: the observation for the next action; each leaf has a leading `num_envs` axis.
        mask: the legal actions of `observation`.
        reward: reward of the last action, to learn from; 0 at the first timestep.
        terminated: the rules of the environment ended the episode: no reward follows.
        truncated: a limit that is not one of the rules cut the episode. The value of
            `last_observation` stands for the rewards that would follow. Never true together with
            `terminated`.
        last_observation: the position that the action led to, before any reset. Equal to
            `observation` where no episode ended.
        last_mask: the legal actions of `last_observation`.
        terms: the parts of the reward by name; empty if the reward has no parts.
        episode: totals of the episodes that ended at this step.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "*num_envs num_actions"]
    reward: Float32[Array, "*num_envs"]
    terminated: Bool[Array, "*num_envs"]
    truncated: Bool[Array, "*num_envs"]
    last_observation: PyTree[Array]
    last_mask: Bool[Array, "*num_envs num_actions"]
    terms: dict[str, Float32[Array, "*num_envs"]]
    episode: EpisodeStatistics

    @property
    def done(self) -> Bool[Array, "*num_envs"]:
        """Whether the episode ended at this step, by termination or truncation."""
        return self.terminated | self.truncated


MOST_STEPS = 2**31 - 1
"""The largest limit of steps: they are counted in 32 bits."""


def check_max_steps(max_steps: Any) -> None:
    """Raises unless a limit of steps is a whole number that 32 bits can count."""
    if whole("max_steps", max_steps) > MOST_STEPS:
        raise ValueError(
            f"max_steps must be at most {MOST_STEPS}, not {shortened(max_steps)}: steps are "
            "counted in 32 bits"
        )


class Environment(eqx.Module):
    """A batch of independent environments that reset themselves.

    All methods work under `jax.jit` and, unless `pure` is false, are pure. Every random draw of an
    environment depends only on its own key. The games therefore stay the same when a batch is
    split over devices. Keys of `rbg` and `unsafe_rbg` break this promise: under `jax.vmap`, JAX
    draws for a whole batch from its first key.
    """

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """Shapes of observations and actions, and how to encode them."""

    @property
    @abstractmethod
    def truncates(self) -> bool:
        """Whether `Timestep.truncated` can be true."""

    @abstractmethod
    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[PyTree[Array], Timestep]:
        """Starts one environment for each key.

        Returns:
            The state of all environments (each leaf has a leading `num_envs` axis) and the first
            timestep. Its rewards are 0, and `terminated` and `truncated` are false.
        """

    @abstractmethod
    def step(
        self,
        state: PyTree[Array],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PyTree[Array], Timestep]:
        """Takes one action in each environment and resets the environments whose episode ended.

        Args:
            state: the state that `reset` or `step` returned.
            actions: one action for each environment. Each environment defines what an illegal
                action does.
            keys: new random keys, one for each environment.
        """

    @property
    def pure(self) -> bool:
        """Whether the state holds the whole games; false where Python plays them.

        Only a pure environment can be checkpointed, resumed, and sharded over devices.
        """
        return True

    @property
    def title(self) -> str:
        """The name of the game, for people; by default the name of the class."""
        return type(self).__name__

    @property
    def longest_dependence(self) -> int | None:
        """Steps of a sequence that holds all that one action may depend on; `None` if unknown.

        Shorter sequences teach a network with memory nothing of what lies before them.
        """
        return None

    def render(self, state: PyTree[Array], game: int = 0) -> str | None:
        """One game as text, lines joined by newlines; `None` if the environment has none.

        Args:
            state: the state that `reset` or `step` returned, outside of `jax.jit`.
            game: its number in the batch.
        """
        return None

    def draw(self, state: PyTree[Array], game: int = 0) -> Any:
        """One game as a picture: uint8 `[height, width, 3]`; `None` if the environment has none.

        The arguments are as in `render`. A picture replaces the text.
        """
        return None

    def drawable(self, report: Callable[[str], None]) -> "Environment":
        """The same games, of which each position is drawn; by default this environment.

        `report` takes a line about why some picture cannot be drawn.
        """
        return self

    def final_state(
        self,
        before: PyTree[Array],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
        after: PyTree[Array],
    ) -> PyTree[Array] | None:
        """The last position of an episode, which a reset follows; `None` if nobody keeps it.

        `after` is the state that `step` returned for the other arguments.
        """
        return None


def env_keys(key: Key[Array, ""], num_envs: int, *, first: int = 0) -> Key[Array, " num_envs"]:
    """One key for each environment. It depends only on `key` and the environment's index.

    Args:
        key: the source of randomness.
        num_envs: number of keys.
        first: index of the first environment, if the batch is a part of a larger one.
    """
    index = np.arange(first, first + num_envs, dtype=np.uint32)
    return _folded(key, index)


@quickly_compiled
def _folded(
    key: Key[Array, ""], index: UInt32[np.ndarray | Array, " num_envs"]
) -> Key[Array, " num_envs"]:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def start_key(key: Key[Array, ""]) -> Key[Array, ""]:
    """The key of the first position of a game."""
    return jax.random.fold_in(key, 0)


@quickly_compiled
def start_games(
    environment: Environment, keys: Key[Array, " num_envs"]
) -> tuple[PyTree[Array], Timestep]:
    """The first positions of the games of these keys (see `env_keys`), by one compiled program.

    Each operation of a `reset` outside of a program is compiled by itself.
    """
    return environment.reset(jax.vmap(start_key)(keys))


def step_keys(
    key: Key[Array, ""], step: Int[Array, ""] | int
) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The key of the player's choice, and the key of the environment, after `step` steps."""
    act, play = jax.random.split(jax.random.fold_in(key, step + 1))
    return act, play


__all__ = [
    "LEARNED_RETURN",
    "Encoder",
    "EnvSpec",
    "Environment",
    "EpisodeStatistics",
    "Features",
    "Timestep",
    "env_keys",
    "flat_features",
    "start_games",
    "start_key",
    "step_keys",
]
