"""What a reinforcement-learning environment is to the rest of the package."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env._split import FeatureSplit


class Features(eqx.Module):
    """One observation as float arrays, ready for a network.

    Attributes:
        flat: values without a place on a board.
        grid: values that have one, channels last; `None` where there is no board.
    """

    flat: Float32[Array, " features"]
    grid: Float32[Array, "rows cols channels"] | None = None

    def ravel(self) -> Float32[Array, " all_features"]:
        """Everything in one vector: the grid first, then the flat values."""
        if self.grid is None:
            return self.flat
        return jnp.concatenate([self.grid.ravel(), self.flat])


def flat_features(observation: PyTree) -> Features:
    """The features of an observation that is made of numbers alone."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(observation)]
    return Features(flat=jnp.concatenate(leaves))


@dataclass(frozen=True)
class EnvSpec:
    """What a network must know of an environment.

    Attributes:
        num_actions: size of the (discrete) action space.
        observation: a `jax.ShapeDtypeStruct` for each leaf of one observation (no batch axis).
        encode: turns one observation into `Features`; called under `jax.vmap`.
        terms: names of the parts of the reward (see `Timestep.terms`).
        split: how the features of `encode` split, so that a dense first layer takes less work;
            `None`: not known.

    Raises:
        ValueError: `split` is not of this `encode`.
    """

    num_actions: int
    observation: PyTree
    encode: Callable[[PyTree], Features] = flat_features
    terms: tuple[str, ...] = ()
    split: FeatureSplit | None = None

    def __post_init__(self) -> None:
        if self.split is not None and self.split.encode is not self.encode:
            raise ValueError(
                "EnvSpec: split is of another encode than the spec's; use split=None, or the "
                "split of this encode"
            )

    @property
    def num_features(self) -> int:
        """How many numbers `encode` makes of one observation (`Features.ravel()`)."""
        return jax.eval_shape(lambda seen: self.encode(seen).ravel(), self.observation).size


LEARNED_RETURN = "learned_return"
"""Name in `EpisodeStatistics.extra` of the sum of `Timestep.reward` over the episode, in an
environment whose reward to learn from is not what its `total_reward` adds up."""


class EpisodeStatistics(eqx.Module):
    """Totals of the episodes that ended at this step; meaningful where `Timestep.done`.

    Attributes:
        total_reward: undiscounted return of the episode, which is reported as `return`: the sum
            of `Timestep.reward`, unless `extra` has that sum as `learned_return`.
        length: number of steps.
        extra: further numbers of the environment's own, by name (stage, score, won ...).
    """

    total_reward: Float32[Array, "*num_envs"]
    length: Int32[Array, "*num_envs"]
    extra: dict[str, Float32[Array, "*num_envs"]] = eqx.field(default_factory=dict)


class Timestep(eqx.Module):
    """What a batch of environments shows after a step.

    Where an episode ended, the environment has already been reset: `observation` and `mask`
    belong to the first position of the next episode, while `reward`, `terminated`,
    `truncated`, `last_observation` and `episode` speak of the one that ended.

    Attributes:
        observation: what to act on next; each leaf has a leading `num_envs` axis.
        mask: the legal actions there.
        reward: of the action just taken, to learn from; 0 at the first timestep.
        terminated: the episode ended by the environment's own rules: nothing follows.
        truncated: a limit of the trainer's cut the episode: a value may be bootstrapped from
            `last_observation`. Never set together with `terminated`.
        last_observation: the position that the action led to, before any reset. Equal to
            `observation` where no episode ended.
        last_mask: the legal actions there.
        terms: the parts of the reward by name; empty where there is only one.
        episode: totals of the episodes that ended here.
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
        """The episode ended at this step, whatever the reason."""
        return self.terminated | self.truncated


class Environment(eqx.Module):
    """A batch of independent environments that reset themselves.

    All methods are pure and work under `jax.jit`. Every random draw of an environment is a
    function of its own key, so that the same games are played however the batch is split
    over devices.
    """

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """Shapes of observations and actions, and how to encode them."""

    @property
    @abstractmethod
    def truncates(self) -> bool:
        """Whether `Timestep.truncated` can ever be true."""

    @abstractmethod
    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[PyTree[Array], Timestep]:
        """Starts one environment for each key.

        Returns:
            The state of all of them (each leaf with a leading `num_envs` axis) and the first
            timestep, whose reward is 0 and whose flags are false.
        """

    @abstractmethod
    def step(
        self,
        state: PyTree[Array],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PyTree[Array], Timestep]:
        """Takes one action in each environment, and resets those whose episode ended.

        Args:
            state: as returned by `reset` or `step`.
            actions: one for each environment. What an illegal one does is the environment's
                to say; it is never undefined.
            keys: fresh randomness, one key for each environment.
        """


def env_keys(key: Key[Array, ""], num_envs: int, *, first: int = 0) -> Key[Array, " num_envs"]:
    """One key for each environment, a function of `key` and the environment's index alone.

    Args:
        key: the source of randomness.
        num_envs: how many keys.
        first: index of the first environment, where the batch is a part of a larger one.
    """
    index = np.arange(first, first + num_envs, dtype=np.uint32)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


__all__ = [
    "LEARNED_RETURN",
    "EnvSpec",
    "Environment",
    "EpisodeStatistics",
    "Features",
    "Timestep",
    "env_keys",
    "flat_features",
]
