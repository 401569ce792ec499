"""How much memory training needs, from shapes alone: before anything is compiled."""

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
    """Bytes on the device that holds most.

    Attributes:
        state: of the training state, which is there all the time.
        rollout: of one rollout with what is computed for it, which is there while learning.
        learning: of a minibatch, the gradient, and what the network keeps for it: an upper
            bound, for the compiler computes some of it anew or never stores it.
        checkpoint: of one checkpoint on disk, before it is compressed; of all devices.
    """

    state: int
    rollout: int
    learning: int
    checkpoint: int

    @property
    def sure(self) -> int:
        """What no compiler can do without."""
        return self.state + self.rollout

    @property
    def total(self) -> int:
        """Everything, roughly; the compiled figure is nearer the truth."""
        return self.sure + self.learning


def estimate_memory(trainer: Trainer[Any]) -> MemoryEstimate:
    """Estimates what a trainer will need, from the shapes of what it will make.

    It takes the seconds that tracing a first reset takes, and no memory. Of an algorithm other
    than PPO the state alone is known before it is compiled.
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
    if trainer.algorithm.remat == "full":  # of one step at a time
        kept /= num_steps
    parameters = bytes_per_device(eqx.filter(policy, _is_inexact))
    return MemoryEstimate(
        state=bytes_per_device(state),
        rollout=rollout,
        learning=math.ceil(rollout / parts + kept) + 3 * parameters,
        checkpoint=checkpoint,
    )


def least_memory(game: GameConfig, spec: EnvSpec, *, games: int, num_steps: int) -> MemoryEstimate:
    """What some games need at the least, by arithmetic alone: nothing is traced for it.

    Args:
        game: sizes of each game.
        spec: of the environment.
        games: on a device.
        num_steps: of a rollout; 0 if there is none.
    """
    # Of its state the snapshots alone, and of those a word for each thing.
    state = games * game.history * 4 * (game.max_enemies + game.max_transmissions)
    rollout = games * num_steps * _step_bytes(spec)
    return MemoryEstimate(state=state, rollout=rollout, learning=0, checkpoint=state)


def _step_bytes(spec: EnvSpec) -> int:
    """Bytes of a step as `Rollout` keeps it, with what is computed for it.

    What was seen, the mask, the action, four float32 and two flags. Then advantage, value and
    target.
    """
    return bytes_of(spec.observation) + spec.num_actions + 4 + 4 * 4 + 2 + 3 * 4


def _is_inexact(leaf: Any) -> bool:
    return is_shape(leaf) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)


def _intermediates(policy: Any, observation: Any, carry: Any) -> int:
    """Bytes of everything that the network computes for one observation."""
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
            # A loop keeps what each of its turns computes.
            turns = equation.params.get("length", 1)
            total += turns * sum(_outputs(each) for each in inner)
        else:
            total += sum(size_of(each.aval.shape, each.aval.dtype) for each in equation.outvars)
    return total


def _program(parameter: Any) -> Any:
    """The program that a parameter of an equation is, if it is one."""
    if hasattr(parameter, "jaxpr"):
        parameter = parameter.jaxpr
    return parameter if hasattr(parameter, "eqns") else None
