"""A custom network with a memory, in a game that needs one.

A corridor has eight cells, with a prize at one end. Only the first observation shows which end, so
the network has to remember it.

python own_memory.py [STEPS]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm

LENGTH = 8


class Corridor(hm.SingleGame):
    """Walk left (0) or right (1); 1 for the end with the prize, -1 for the other."""

    @property
    def num_actions(self):
        return 2

    def start(self, *, key):
        place, is_first = jnp.int32(LENGTH // 2), jnp.bool_(True)
        return place, jax.random.bernoulli(key), is_first

    def observe(self, state):
        place, prize_right, is_first = state
        hint = jnp.where(is_first, jnp.where(prize_right, 1.0, -1.0), 0.0)
        return jnp.stack([place / LENGTH, hint])

    def play(self, state, action, *, key):
        place, prize_right, _ = state
        place = place + 2 * action - 1
        at_right = place == LENGTH - 1
        over = (place == 0) | at_right
        reward = jnp.where(over, jnp.where(at_right == prize_right, 1.0, -1.0), 0.0)
        return hm.Played((place, prize_right, jnp.bool_(False)), reward, over)


class Remembers(hm.ActorCritic):
    """A gated memory: each step overwrites a learned share of it."""

    encode: object = eqx.field(static=True)
    width: int = eqx.field(static=True)
    new: eqx.nn.Linear
    gate: eqx.nn.Linear
    policy: eqx.nn.Linear
    value: eqx.nn.Linear

    def __init__(self, spec, *, width=32, key):
        keys = jax.random.split(key, 4)
        self.encode, self.width = spec.encode, width
        self.new = eqx.nn.Linear(spec.num_features, width, key=keys[0])
        self.gate = eqx.nn.Linear(spec.num_features, width, key=keys[1])
        self.policy = eqx.nn.Linear(spec.num_features + width, spec.num_actions, key=keys[2])
        self.value = eqx.nn.Linear(spec.num_features + width, "scalar", key=keys[3])

    def initial_carry(self):
        # The trainer resets the carry to this at the start of each episode.
        return jnp.zeros(self.width)

    def __call__(self, observation, carry):
        features = self.encode(observation).ravel()
        share = jax.nn.sigmoid(self.gate(features))
        carry = (1 - share) * carry + share * jnp.tanh(self.new(features))
        # The carry is float32 in every precision; the layers read it in the dtype of the features.
        hidden = jnp.concatenate([features, carry.astype(features.dtype)])
        return self.policy(hidden), self.value(hidden), carry


def main(steps: int) -> None:
    environment = hm.Batched(Corridor(), max_steps=30)
    network = Remembers(environment.spec, key=jax.random.key(0))
    hm.check_policy(network, environment.spec)
    trainer = hm.Trainer(
        hm.PPO(environment, network, learning_rate=5e-3, num_envs=64, num_steps=32),
        updates_per_dispatch=10,
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())
    found = hm.evaluate(trainer.policy, environment, episodes=200, key=jax.random.key(2))
    print(f"mean return {found.estimate('return').mean:+.2f} (best possible: +1)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
