"""Estimates the memory of training from shapes, before anything is compiled."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax

from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.game import GameConfig
from hackmatrix_rl.system import (
    bytes_of,
    size_of,
)
from hackmatrix_rl.training import PPO, Trainer, is_shape
from hackmatrix_rl.training.sharding import bytes_per_device


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the fullest device.

    Attributes:
        state: the training state, which is always there.
        rollout: one rollout with its advantages and targets, which is there during learning.
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
    knows only the state.
    """
    state = trainer.abstract_state()
    policy = trainer.algorithm.policy(state)
    checkpoint = bytes_of(state) + bytes_of(policy)
    if not isinstance(trainer.algorithm, PPO):
        return MemoryEstimate(bytes_per_device(state), 0, 0, checkpoint)
    spec = trainer.environment.spec
    num_steps = trainer.algorithm.collect.num_steps
    devices = trainer.mesh.size
    collect = trainer.algorithm.collect
    step = _step_bytes(spec) + 2 * len(collect.terms)
    if collect.keep_log_probs:
        step += 4 * spec.num_actions
    rollout = num_steps * math.ceil(trainer.algorithm.num_envs / devices) * step
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
    rollout = games * num_steps * _step_bytes(spec)
    return MemoryEstimate(state=state, rollout=rollout, learning=0, checkpoint=state)


def _step_bytes(spec: EnvSpec) -> int:
    """Bytes of a step in a `Rollout`, with its advantage and targets.

    A step has observation, mask, action, four float32 and two flags. Then come advantage, value
    and target.
    """
    return bytes_of(spec.observation) + spec.num_actions + 4 + 4 * 4 + 2 + 3 * 4


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
