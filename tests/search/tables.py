"""Games that are a table, so small that the right action is a number; and networks likewise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import hackmatrix_rl as hm

NUM_STATES, NUM_ACTIONS = 6, 3
ENDS = -1

Row = tuple[float, int] | tuple[float, int, float, int]
"""What an action pays and where it leads; with four numbers, a fair coin decides between two."""


class Table(hm.SingleGame):
    """A finite decision process; `rows[state, action]`. It starts in state 0."""

    reward: Array  # [state, action, coin]
    leads_to: Array
    allowed: Array

    def __init__(self, rows: dict[tuple[int, int], Row], illegal: tuple[tuple[int, int], ...] = ()):
        reward = np.zeros((NUM_STATES, NUM_ACTIONS, 2), np.float32)
        leads_to = np.full((NUM_STATES, NUM_ACTIONS, 2), ENDS, np.int32)
        allowed = np.ones((NUM_STATES, NUM_ACTIONS), bool)
        for (state, action), row in rows.items():
            pays, after, other, other_after = row if len(row) == 4 else (*row, *row)
            reward[state, action] = pays, other
            leads_to[state, action] = after, other_after
        for each in illegal:
            allowed[each] = False
        self.reward, self.leads_to = jnp.asarray(reward), jnp.asarray(leads_to)
        self.allowed = jnp.asarray(allowed)

    @property
    def num_actions(self) -> int:
        return NUM_ACTIONS

    def start(self, *, key: Any) -> Array:
        return jnp.int32(0)

    def observe(self, state: Array) -> Array:
        return jax.nn.one_hot(state, NUM_STATES, dtype=jnp.float32)

    def legal(self, state: Array) -> Array:
        return self.allowed[state]

    def play(self, state: Array, action: Array, *, key: Any) -> hm.Played:
        coin = jax.random.bernoulli(key).astype(jnp.int32)
        after = self.leads_to[state, action, coin]
        ended = after == ENDS
        return hm.Played(jnp.where(ended, state, after), self.reward[state, action, coin], ended)


class Opinion(hm.ActorCritic):
    """Says what a table holds: logits and value of each state."""

    logits: Array
    values: Array
    encode: Any = eqx.field(static=True, default=None)

    def __init__(
        self,
        values: dict[int, float] | None = None,
        likes: dict[int, int] | None = None,
        strength: float = 1.0,
    ):
        logits = np.zeros((NUM_STATES, NUM_ACTIONS), np.float32)
        for state, action in (likes or {}).items():
            logits[state, action] = strength
        numbers = np.zeros(NUM_STATES, np.float32)
        for state, value in (values or {}).items():
            numbers[state] = value
        self.logits, self.values, self.encode = jnp.asarray(logits), jnp.asarray(numbers), None

    def __call__(self, observation: Array, carry: Any) -> Any:
        state = jnp.argmax(observation)
        return self.logits[state], self.values[state], carry
