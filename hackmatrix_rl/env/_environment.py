"""The interface of an environment."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Float32, Int, Int32, Key, PyTree, Shaped, UInt32

from hackmatrix_rl.env._features import ActionFeatures, FeatureSplit
from hackmatrix_rl.env._spaces import ActionSpace, Discrete, as_space
from hackmatrix_rl.system import quickly_compiled
from hackmatrix_rl.system.errors import shortened, whole


class Features(eqx.Module):
    """One observation as float arrays: the input of a network."""

    flat: Float[Array, " features"]  #: Features without a cell of a board.
    #: Features of each cell of the board, channels last; `None` without a board.
    grid: Float[Array, "rows cols channels"] | None = None

    def ravel(self) -> Float[Array, " all_features"]:
        """All features as one vector: the grid, then the flat ones."""
        if self.grid is None:
            return self.flat
        return jnp.concatenate([self.grid.ravel(), self.flat])


def flat_features(observation: PyTree) -> Features:
    """All arrays of an observation, concatenated as float32."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(observation)]
    return Features(flat=jnp.concatenate(leaves))


@dataclass(frozen=True)
class Encoder:
    """A function from one observation to `Features`, and the dtype of the features.

    The function computes in float32. A network under a precision policy gets the features in the
    dtype of its parameters (see `ActorCritic`).
    """

    function: Callable[[PyTree], Features]
    dtype: DTypeLike = jnp.float32  #: The dtype of the features.

    def __call__(self, observation: PyTree) -> Features:
        """The features of one observation."""
        features = self.function(observation)
        if self.dtype == jnp.float32:
            return features
        cast: Features = jax.tree.map(lambda leaf: leaf.astype(self.dtype), features)
        return cast


@no_type_check  # of beartype at run time: the constructor converts a whole number
@dataclass(frozen=True)
class EnvSpec:
    """The specification of an environment, for a network.

    Attributes:
        actions: the space of actions: `Discrete`, `MultiDiscrete` or `Box`. A whole number `n`
            becomes `Discrete(n)`.
        observation: a `jax.ShapeDtypeStruct` for each leaf of one observation (no batch axis).
        encode: turns one observation into `Features`. It is called under `jax.vmap`. The spec
            wraps a function in an `Encoder`.
        terms: names of the terms of the reward (see `Timestep.terms`).
        split: the split of the features of `encode`, which makes a dense first layer cheaper;
            `None` without a split.
        action_features: features of single actions, for networks that embed actions; `None`
            without them.
        precompute: adds intermediate results of `encode` to one observation; `encode` accepts
            observations with and without them. A rollout stores the result, so that learning does
            not recompute it in each epoch. `None`: the observation is stored as it is.

    Raises:
        TypeError: `actions` is no space.
        ValueError: `actions` is less than 1, or `split` belongs to another `encode`.
    """

    actions: ActionSpace
    observation: PyTree
    encode: Callable[[PyTree], Features] = flat_features
    terms: tuple[str, ...] = ()
    split: FeatureSplit | None = None
    action_features: ActionFeatures | None = None
    precompute: Callable[[PyTree], PyTree] | None = None

    def __new__(cls, *given: Any, **named: Any) -> "EnvSpec":
        if "num_actions" in named:
            raise TypeError("EnvSpec has no num_actions; use actions=2, or actions=hm.Discrete(2)")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", as_space(self.actions))
        if callable(self.encode) and not isinstance(self.encode, Encoder):
            object.__setattr__(self, "encode", Encoder(self.encode))
        function = getattr(self.encode, "function", None)
        if self.split is not None and self.split.encode is not function:
            raise ValueError(
                "EnvSpec: split is of another encode than the spec's; use split=None, or the "
                "split of this encode"
            )

    @property
    def num_actions(self) -> int:
        """The number of actions of a `Discrete` space.

        Raises:
            ValueError: the actions are of another space.
        """
        if not isinstance(self.actions, Discrete):
            raise ValueError(
                f"actions are {self.actions}, which have no count; use spec.actions.num_parameters "
                "for the outputs of a network, and spec.actions.mask_size for masks"
            )
        return self.actions.n

    @property
    def num_features(self) -> int:
        """The length of `Features.ravel()` of one observation."""
        return jax.eval_shape(lambda seen: self.encode(seen).ravel(), self.observation).size

    @property
    def stored(self) -> PyTree:
        """A `jax.ShapeDtypeStruct` for each leaf of the result of `precompute`."""
        return jax.eval_shape(self.precompute or (lambda seen: seen), self.observation)


LEARNED_RETURN = "learned_return"
"""The name in `EpisodeStatistics.extra` of the undiscounted sum of `Timestep.reward`.

An environment has it if the learned reward differs from the reported one (`total_reward`)."""


class EpisodeStatistics(eqx.Module):
    """Totals of the episodes that ended at this step; undefined except where `Timestep.done`.

    Attributes:
        total_reward: undiscounted return of the episode, reported as `return`. It is the sum of
            `Timestep.reward`, unless `extra` has this sum as `learned_return`.
        length: number of steps of the episode.
        extra: further metrics of the environment, by name (stage, score, won ...).
        counts: whether the episode began like the episodes of an evaluation. The statistics of a
            rollout ignore others. `None`: all count.
    """

    total_reward: Float32[Array, "*num_envs"]
    length: Int32[Array, "*num_envs"]
    extra: dict[str, Float32[Array, "*num_envs"]] = eqx.field(default_factory=dict)
    counts: Bool[Array, "*num_envs"] | None = None


class Timestep(eqx.Module):
    """The result of a step of a batch of environments.

    An environment whose episode ended is already reset. There, `observation` and `mask` are of the
    new episode; `reward`, `terminated`, `truncated`, `last_observation`, `last_mask`, `terms` and
    `episode` are of the episode that ended.

    Attributes:
        observation: the observation for the next action; each leaf has a leading `num_envs` axis.
        mask: the legal actions of `observation`; of length 0 for a `Box`.
        reward: the learned reward of the last action; 0 at the first timestep.
        terminated: whether the rules ended the episode. No reward follows.
        truncated: whether a limit outside of the rules ended the episode. The value bootstraps from
            `last_observation`. Never true together with `terminated`.
        last_observation: the observation after the action, before a reset. It equals `observation`
            where no episode ended.
        last_mask: the legal actions of `last_observation`.
        terms: the terms of the reward by name; empty if it has none.
        episode: totals of the episodes that ended at this step.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "*num_envs mask_size"]
    reward: Float32[Array, "*num_envs"]
    terminated: Bool[Array, "*num_envs"]
    truncated: Bool[Array, "*num_envs"]
    last_observation: PyTree[Array]
    last_mask: Bool[Array, "*num_envs mask_size"]
    terms: dict[str, Float32[Array, "*num_envs"]]
    episode: EpisodeStatistics

    @property
    def done(self) -> Bool[Array, "*num_envs"]:
        """Whether the episode ended at this step, by termination or truncation."""
        return self.terminated | self.truncated


MOST_STEPS = 2**31 - 1
"""The largest limit of steps: the counter is int32."""


def check_max_steps(max_steps: Any) -> None:
    """Raises unless a limit of steps is a positive int32."""
    if whole("max_steps", max_steps) > MOST_STEPS:
        raise ValueError(
            f"max_steps must be at most {MOST_STEPS}, not {shortened(max_steps)}: steps are "
            "counted in 32 bits"
        )


class Environment(eqx.Module):
    """A batch of independent environments that reset themselves.

    `reset` and `step` work under `jax.jit` and, unless `pure` is false, are pure. Every random draw
    of an environment depends only on its own key, so the games do not depend on how a batch is
    sharded. Keys of `rbg` and `unsafe_rbg` break this promise: under `jax.vmap`, JAX draws for the
    batch from its first key.
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
        actions: Shaped[Array, "num_envs *action"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PyTree[Array], Timestep]:
        """Takes one action in each environment and resets the environments whose episode ended.

        Args:
            state: the state that `reset` or `step` returned.
            actions: one action per environment, of `spec.actions`. The environment defines the
                effect of an illegal action.
            keys: fresh random keys, one per environment.
        """

    @property
    def pure(self) -> bool:
        """Whether the state is complete; false if Python holds the games outside of it.

        Only a pure environment can be checkpointed, resumed and sharded over devices.
        """
        return True

    @property
    def title(self) -> str:
        """The display name of the game; by default the name of the class."""
        return type(self).__name__

    @property
    def longest_dependence(self) -> int | None:
        """The length of a sequence with everything that its last action may depend on, in steps.

        A recurrent network cannot learn this dependence from shorter sequences. `None`: unknown.
        """
        return None

    def render(self, state: PyTree[Array], game: int = 0) -> str | None:
        """One game as text, with lines joined by newlines; `None` without a text.

        Args:
            state: the state that `reset` or `step` returned, outside of `jax.jit`.
            game: index of the game in the batch.
        """
        return None

    def draw(self, state: PyTree[Array], game: int = 0) -> Any:
        """One game as a picture, uint8 `[height, width, 3]`; `None` without a picture.

        The arguments are as in `render`. A picture is shown instead of the text.
        """
        return None

    def drawable(self, report: Callable[[str], None]) -> "Environment":
        """The same games with pictures; by default this environment.

        `report` is called with one line if a picture cannot be drawn.
        """
        return self

    def final_state(
        self,
        before: PyTree[Array],
        actions: Shaped[Array, "num_envs *action"],
        keys: Key[Array, " num_envs"],
        after: PyTree[Array],
    ) -> PyTree[Array] | None:
        """The state after a step, before its resets; `None` if it is not available.

        `after` is the state that `step` returned for the other arguments.
        """
        return None


def env_keys(key: Key[Array, ""], num_envs: int, *, first: int = 0) -> Key[Array, " num_envs"]:
    """A key for each environment, from `key` and the environment's index alone.

    Args:
        key: source of randomness.
        num_envs: number of keys.
        first: index of the first environment, if the batch is part of a larger one.
    """
    index = np.arange(first, first + num_envs, dtype=np.uint32)
    return _folded(key, index)


@quickly_compiled
def _folded(
    key: Key[Array, ""], index: UInt32[np.ndarray | Array, " num_envs"]
) -> Key[Array, " num_envs"]:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def start_key(key: Key[Array, ""]) -> Key[Array, ""]:
    """The key for `reset` of a game."""
    return jax.random.fold_in(key, 0)


@quickly_compiled
def start_games(
    environment: Environment, keys: Key[Array, " num_envs"]
) -> tuple[PyTree[Array], Timestep]:
    """`reset` with the `start_key` of each game (see `env_keys`), compiled as one program.

    Outside of `jax.jit`, each operation of `reset` would be compiled separately.
    """
    return environment.reset(jax.vmap(start_key)(keys))


def step_keys(
    key: Key[Array, ""], step: Int[Array, ""] | int
) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The key of the player's choice and the key of the environment, after `step` steps."""
    act, play = jax.random.split(jax.random.fold_in(key, step + 1))
    return act, play
