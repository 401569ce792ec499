"""All that training has come to: what a checkpoint holds."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import (
    CollectorState,
    ValueScale,
)
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.training._algorithm import AlgorithmState
from hackmatrix_rl.training._counter import Counter

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")


class Learner(eqx.Module):
    """The policy and everything that changes with it.

    Attributes:
        policy: the network, its parameters in float32.
        optimizer_state: of the optimizer, for the policy's parameters.
        value_scale: units of the network's value.
        scaling: state of the loss scaling; `()` without one.
        skipped: gradient steps that were not taken because a gradient was not finite.
    """

    policy: ActorCritic
    optimizer_state: PyTree[Array]
    value_scale: ValueScale
    scaling: PyTree[Array]
    skipped: Int32[Array, ""]

    def step(
        self,
        optimizer: optax.GradientTransformation,
        gradient: PyTree[Array],
        learning_rate: Float32[Array, ""],
        *,
        take: Bool[Array, ""],
    ) -> "Learner":
        """The learner after a gradient step.

        Args:
            optimizer: turns the gradient into a change of the parameters.
            gradient: of the loss, shaped like the policy.
            learning_rate: factor on the optimizer's change.
            take: whether to take the step; if not, nothing changes.
        """
        parameters = parameters_of(self.policy)
        # Optax relies on implicit promotion of dtypes, which our own code does not.
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimizer.update(gradient, self.optimizer_state, parameters)
        change = jax.tree.map(lambda leaf: jnp.where(take, learning_rate * leaf, 0.0), change)
        stepped: Learner = eqx.tree_at(
            lambda learner: (learner.policy, learner.optimizer_state),
            self,
            (
                eqx.apply_updates(self.policy, change),
                jax.tree.map(partial(jnp.where, take), state, self.optimizer_state),
            ),
        )
        return stepped


class TrainState(AlgorithmState):
    """Everything that PPO continues from.

    Attributes:
        learner: the policy and everything that changes with it.
        actors: the environments, between two rollouts.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of environment steps taken, over all environments.
    """

    learner: Learner
    actors: CollectorState
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter


def filter_scan(body: Callable[[C, X], tuple[C, Y]], initial: C, inputs: X) -> tuple[C, Y]:
    """`jax.lax.scan` with a carry that may hold more than arrays (a network's functions, say).

    Args:
        body: from a carry and one input to the next carry and one output.
        initial: the first carry. Its arrays change, the rest stays.
        inputs: arrays with a leading axis to go along.

    Returns:
        The last carry, and the outputs stacked.
    """
    arrays, rest = eqx.partition(initial, eqx.is_array)

    def array_body(arrays: Any, inputs: X) -> tuple[Any, Y]:
        carry, output = body(eqx.combine(arrays, rest), inputs)
        return eqx.filter(carry, eqx.is_array), output

    arrays, outputs = jax.lax.scan(array_body, arrays, inputs)
    carry: C = eqx.combine(arrays, rest)
    return carry, outputs
