"""Games of one decision in a space other than `Discrete`: the best action is observed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm


class Target(hm.SingleGame[Any]):
    """The reward is minus the squared distance of the action from a target; a game of two steps."""

    size: int = eqx.field(static=True, default=2)

    @property
    def actions(self):
        return hm.Box((-1.0,) * self.size, (3.0,) * self.size)

    def start(self, *, key):
        return jax.random.uniform(key, (self.size,), minval=-0.5, maxval=2.5), jnp.int32(0)

    def observe(self, state):
        return state[0]

    def play(self, state, action, *, key):
        target, number = state
        reward = -jnp.sum((action - target) ** 2)
        return hm.Played((target, number + 1), reward, number == 1)


class Dials(hm.SingleGame[Any]):
    """Two dials: the reward is the number of those that show their target; one step.

    The first dial's last number is illegal.
    """

    actions = hm.MultiDiscrete((3, 2))

    def start(self, *, key):
        return jax.random.randint(key, (2,), 0, 2)

    def observe(self, state):
        return jax.nn.one_hot(state, 2)

    def legal(self, state):
        return jnp.array([True, True, False, True, True])

    def play(self, state, action, *, key):
        reward = jnp.sum(action == state).astype(jnp.float32)
        return hm.Played(state, reward, jnp.bool_(True))
