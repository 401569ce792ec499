"""The first state of a training, made on the devices where it stays."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training._algorithm import Algorithm, State
from hackmatrix_rl.training._program import compiler_options, is_shape, located, without_policy
from hackmatrix_rl.training.sharding import place, replicated_shardings


def first_state(algorithm: Algorithm[State], policy: ActorCritic) -> State:
    """The state before the first update, with a shape, dtype and sharding for each array."""
    shapes = eqx.filter_eval_shape(_init, algorithm, jax.random.key(0), policy)
    arrays, rest = eqx.partition(shapes, is_shape)
    state: State = eqx.combine(located(arrays, algorithm.shardings(shapes)), rest)
    return state


class Starter:
    """Makes first states of one algorithm by one compiled program."""

    def __init__(self, algorithm: Algorithm[Any], policy: ActorCritic) -> None:
        """Takes the algorithm and a policy of the structure that it starts from."""
        algorithm = without_policy(algorithm)
        shapes, self._rest = eqx.partition(first_state(algorithm, policy), is_shape)
        code = eqx.filter((algorithm, policy), eqx.is_array, inverse=True)

        def begin(key: Key[Array, ""], given: Any) -> Any:
            algorithm, policy = eqx.combine(given, code)
            return eqx.filter(_init(algorithm, key, policy), eqx.is_array)

        # The state is made with its final sharding: no device ever holds all of it.
        self._begin = jax.jit(
            begin,
            out_shardings=algorithm.shardings(shapes),
            compiler_options=compiler_options(algorithm.mesh, once=True),
        )

    def __call__(
        self, key: Key[Array, ""], algorithm: Algorithm[State], policy: ActorCritic
    ) -> State:
        """The state before the first update.

        Args:
            key: source of all randomness in the training.
            algorithm: the algorithm that the starter was made with.
            policy: the policy to start from.
        """
        given = (key, eqx.filter((without_policy(algorithm), policy), eqx.is_array))
        made = self._begin(*place(given, replicated_shardings(algorithm.mesh, given)))
        state: State = eqx.combine(made, self._rest)
        return state


def _init(algorithm: Algorithm[State], key: Key[Array, ""], policy: ActorCritic) -> State:
    return algorithm.init(key, policy)
