"""Small networks, and trainings on probe environments."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from agent import probes
from agent.builders import Closed

import hackmatrix_rl as hm
from hackmatrix_rl.agent import IdentityScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2 import EpsilonGreedy, Sampling, Uniform
from hackmatrix_rl.algorithms.r2d2._q_values import q_values, unroll_q

SIZES: dict[str, Any] = {
    "num_envs": 8,
    "train_freq": 4,
    "buffer_size": 8 * 24,
    "sequence_length": 5,
    "burn_in": 2,
    "n_step": 2,
    "sequence_batch_size": 16,
    "train_steps": 2,
    "target_update": 3,
}
STEPS = 8 * 4


class Forgetful(ActorCritic):
    """A network that has a memory and never looks at it."""

    inner: hm.MLPActorCritic

    def initial_carry(self):
        return jnp.zeros((1,), jnp.float32)

    def __call__(self, observation, carry):
        logits, value, _ = self.inner(observation, ())
        return logits, value, carry


class Alike(Sampling):
    """Draws all sequences alike, as `Uniform` does, which is final."""

    inner: Uniform = Uniform()

    def draw(self, there, priority, count, *, key):
        return self.inner.draw(there, priority, count, key=key)


def network(spec, kind="gru", *, seed=0, width=16):
    key = jax.random.key(seed)
    if kind == "lstm":
        return hm.LSTMActorCritic(spec, width=width, key=key)
    if kind == "forgetful":
        return Forgetful(hm.MLPActorCritic(spec, width=width, depth=1, key=key))
    gru = hm.GRUActorCritic(spec, width=width, key=key)
    return Closed(gru) if kind == "closed" else gru


def trainer(environment, *, kind="gru", seed=0, updates=1, **changes):
    policy = network(environment.spec, kind, seed=seed)
    given = {"learning_rate": 0.01, **SIZES, **changes}
    return hm.Trainer(hm.R2D2(environment, policy, **given), updates_per_dispatch=updates)


def train(probe, *, kind="gru", updates=600, **changes):
    """Trains on a probe, half of the time at random, and returns the trainer.

    All probes train by one compiled program.
    """
    settings: dict[str, Any] = {
        "gamma": probes.DISCOUNT,
        "value_scale": IdentityScale(),
        "explore": EpsilonGreedy(0.5, 0.0),
        "num_envs": 16,
        "buffer_size": 16 * 64,
        "burn_in": 0,
        "n_step": 1,
        "train_steps": 1,
        "target_update": 20,
        "learning_rate": 0.005,
        **changes,
    }
    learns = trainer(probe, kind=kind, updates=100, **settings)
    learns.fit(updates * learns.batch_size, key=jax.random.key(1))
    return learns


def first_values(learns):
    """Q-values of each state as the first of an episode, in units of reward."""
    probe, policy = learns.environment, learns.policy
    logits, value, _ = jax.vmap(lambda seen: policy(seen, policy.initial_carry()))(probe.shown)
    found = q_values(logits, value, dueling=learns.algorithm.learn.loss.dueling)
    return np.asarray(learns.value_scale.denormalize(found))


def values_along(learns, states):
    """Q-values of an episode's states, in units of reward."""
    policy = learns.policy
    carry = jax.tree.map(lambda leaf: leaf[None], policy.initial_carry())
    seen = learns.environment.shown[jnp.asarray(states)][:, None]
    done = jnp.zeros((len(states), 1), bool)
    found, _ = unroll_q(
        policy, seen, None, carry, done, dueling=learns.algorithm.learn.loss.dueling
    )
    return np.asarray(learns.value_scale.denormalize(found))[:, 0]


def look_alike():
    """State 2 leads to state 1, which looks like state 0; action 2 pays 10, illegal in state 1."""
    return probes.Probe(
        {
            (0, None): (1.0, 0, probes.TERMINATES),
            (0, 2): (10.0, 0, probes.TERMINATES),
            (1, None): (1.0, 0, probes.TERMINATES),
            (2, None): (0.0, 1, probes.GOES_ON),
        },
        starts=(0, 2),
        illegal=((1, 2),),
        looks_like={1: 0},
    )
