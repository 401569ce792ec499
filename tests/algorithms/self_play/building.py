"""Small games and networks."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.games.clique import CliqueConfig, from_edges, solve

FOUR = CliqueGame(CliqueConfig(4, 3))
FIVE = CliqueGame(CliqueConfig(5, 3))
SIX = CliqueGame(CliqueConfig(6, 3))
MAKER_BREAKER = CliqueGame(CliqueConfig(3, 3, "second-wins"))


class Opinion(ActorCritic):
    """The same logits and the same value everywhere."""

    logits: jax.Array
    value: jax.Array

    def __call__(self, observation, carry):
        return self.logits, self.value, carry


def opinion(game, value=0.0, favourite=None):
    logits = jnp.zeros(game.num_actions, jnp.float32)
    if favourite is not None:
        logits = logits.at[favourite].set(50.0)
    return Opinion(logits, jnp.float32(value))


def network(game, seed=0, width=16):
    spec = hm.Batched(game).spec
    return hm.MLPActorCritic(spec, width=width, depth=1, key=jax.random.key(seed))


def batch_of(game, *positions):
    """Positions side by side, each as the edges of the first and of the second player."""
    states = [from_edges(game.config, *edges) for edges in positions]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


@eqx.filter_jit
def searched(search, game, policy, states, keys):
    return search(game, policy, states, keys)


@cache
def solution(game_config):
    return solve(game_config)
