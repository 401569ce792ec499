"""Estimates the memory of training from shapes, before anything is compiled."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent import RolloutCollector, at
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import Environment, EnvSpec, EpisodeStatistics, Timestep, env_keys
from hackmatrix_rl.game import GameConfig
from hackmatrix_rl.system import (
    bytes_of,
    size_of,
)
from hackmatrix_rl.training import Trainer, is_shape
from hackmatrix_rl.training.sharding import bytes_per_device


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the fullest device.

    Attributes:
        state: the training state, which is always there.
        rollout: one rollout with its advantages and targets, which is there during learning; for
            other algorithms what an update surely needs beside the state.
        learning: a minibatch, the gradient, and the intermediate results of the network. This
            is an upper bound: the compiler recomputes some of it or never stores it.
        checkpoint: one checkpoint on disk before compression, over all devices.
    """

    state: int
    rollout: int
    learning: int
    checkpoint: int

    @property
    def sure(self) -> int:
        """Bytes that every compiler needs."""
        return self.state + self.rollout

    @property
    def total(self) -> int:
        """A rough total; the figure of the compiler is more exact."""
        return self.sure + self.learning


def estimate_memory(trainer: Trainer[Any]) -> MemoryEstimate:
    """Estimates a trainer's memory from the shapes of its arrays.

    This traces a reset, which takes seconds but no memory. For algorithms other than PPO it
    knows only the state, and what they say themselves (`Algorithm.working_bytes`).
    """
    state = trainer.abstract_state()
    policy = trainer.algorithm.policy(state)
    checkpoint = bytes_of(trainer.algorithm.to_store(state)) + bytes_of(policy)
    if not isinstance(trainer.algorithm, PPO):
        return MemoryEstimate(
            bytes_per_device(state), trainer.algorithm.working_bytes(state), 0, checkpoint
        )
    spec = trainer.environment.spec
    num_steps = trainer.algorithm.collect.num_steps
    devices = trainer.mesh.size
    games = math.ceil(trainer.algorithm.num_envs / devices)
    rollout = _rollout_bytes(trainer.algorithm, policy, games)
    parts = trainer.algorithm.batches.num_minibatches * trainer.algorithm.grad_accum
    shape, carry = spec.observation, jax.eval_shape(policy.initial_carry)
    kept = (
        _intermediates(policy, shape, carry)
        * num_steps
        * trainer.algorithm.num_envs
        / devices
        / parts
    )
    if trainer.algorithm.remat == "full":  # one step at a time
        kept /= num_steps
    parameters = bytes_per_device(eqx.filter(policy, _is_inexact))
    return MemoryEstimate(
        state=bytes_per_device(state),
        rollout=rollout,
        learning=math.ceil(rollout / parts + kept) + 3 * parameters,
        checkpoint=checkpoint,
    )


def least_memory(game: GameConfig, spec: EnvSpec, *, games: int, num_steps: int) -> MemoryEstimate:
    """The least memory of some games, by arithmetic and without tracing.

    Args:
        game: capacities of each game.
        spec: spec of the environment.
        games: number of games on a device.
        num_steps: steps of a rollout; 0 without one.
    """
    # Count only the snapshots, and in them one word for each enemy and transmission.
    state = games * game.history * 4 * (game.max_enemies + game.max_transmissions)
    # Of a rollout only what is seen and the legal actions.
    rollout = games * num_steps * (bytes_of(spec.observation) + spec.num_actions)
    return MemoryEstimate(state=state, rollout=rollout, learning=0, checkpoint=state)


class _Zeros(Environment):
    """An environment of zeros, which traces at once: its rollouts have the shapes of another's.

    Attributes:
        other: whose shapes.
    """

    other: Environment

    @property
    def spec(self) -> EnvSpec:
        """The spec of the other environment."""
        return self.other.spec

    @property
    def truncates(self) -> bool:
        """Whether the other environment truncates."""
        return self.other.truncates

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[PyTree[Array], Timestep]:
        """Zeros."""
        games = keys.shape[0]
        observation = jax.tree.map(
            lambda leaf: jnp.zeros((games, *leaf.shape), leaf.dtype), self.spec.observation
        )
        mask = jnp.ones((games, self.spec.num_actions), bool)
        number, flag = jnp.zeros(games, jnp.float32), jnp.zeros(games, bool)
        return (), Timestep(
            observation=observation,
            mask=mask,
            reward=number,
            terminated=flag,
            truncated=flag,
            last_observation=observation,
            last_mask=mask,
            terms=dict.fromkeys(self.spec.terms, number),
            episode=EpisodeStatistics(number, jnp.zeros(games, jnp.int32)),
        )

    def step(
        self,
        state: PyTree[Array],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PyTree[Array], Timestep]:
        """Zeros."""
        return self.reset(keys)


def _rollout_bytes(algorithm: PPO, policy: Any, games: int) -> int:
    """Bytes of a rollout of so many games, with its advantages and targets."""
    collect = algorithm.collect
    plain = RolloutCollector(
        collect.num_steps, terms=collect.terms, keep_log_probs=collect.keep_log_probs
    )
    arrays, code = eqx.partition(policy, is_shape)
    environment = _Zeros(algorithm.environment)

    def made(arrays: Any) -> Any:
        policy = eqx.combine(arrays, code)
        keys = env_keys(jax.random.key(0), games)
        actors = plain.start(policy, environment, keys)
        rollout, _ = plain(policy, environment, actors, precision=algorithm.precision)
        estimate = at(algorithm.estimate, jnp.float32(0))
        return {**vars(rollout), "episodes": None}, estimate(rollout, algorithm.value_scale)

    return bytes_of(jax.eval_shape(made, arrays))


def _is_inexact(leaf: Any) -> bool:
    return is_shape(leaf) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)


def _intermediates(policy: Any, observation: Any, carry: Any) -> int:
    """Bytes of all intermediate results of the network for one observation."""
    arrays, code = eqx.partition(policy, is_shape)

    def forward(arrays: Any, observation: Any, carry: Any) -> Any:
        return eqx.combine(arrays, code)(observation, carry)

    jaxpr = jax.make_jaxpr(forward)(arrays, observation, carry)
    return _outputs(jaxpr.jaxpr)


def _outputs(jaxpr: Any) -> int:
    """Bytes of all results in a program, and in the programs it calls."""
    total = 0
    for equation in jaxpr.eqns:
        inner = [each for each in map(_program, equation.params.values()) if each is not None]
        if inner:
            # A loop keeps the results of each of its rounds.
            turns = equation.params.get("length", 1)
            total += turns * sum(_outputs(each) for each in inner)
        else:
            total += sum(size_of(each.aval.shape, each.aval.dtype) for each in equation.outvars)
    return total


def _program(parameter: Any) -> Any:
    """The inner program in a parameter of an equation, if any."""
    if hasattr(parameter, "jaxpr"):
        parameter = parameter.jaxpr
    return parameter if hasattr(parameter, "eqns") else None
