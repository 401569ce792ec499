"""A custom environment with real-valued actions: a point mass that stops at a target.

python own_continuous.py [STEPS]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm


class Point(eqx.Module):
    """The state of one game; all three are [2]."""

    position: jax.Array
    velocity: jax.Array
    target: jax.Array


class PointMass(hm.SingleGame):
    """An action is the force along each axis; the reward is minus the distance to the target."""

    @property
    def actions(self):
        return hm.Box((-1.0, -1.0), (1.0, 1.0))

    def start(self, *, key):
        position, target = jax.random.uniform(key, (2, 2), minval=-1.0, maxval=1.0)
        return Point(position, jnp.zeros(2), target)

    def observe(self, state):
        return jnp.concatenate([state.target - state.position, state.velocity])

    def play(self, state, action, *, key):
        velocity = 0.9 * state.velocity + 0.1 * action
        position = state.position + 0.1 * velocity
        distance = jnp.linalg.norm(position - state.target)
        return hm.Played(Point(position, velocity, state.target), -0.1 * distance, jnp.bool_(False))


def main(steps: int) -> None:
    environment = hm.Batched(PointMass(), max_steps=100)
    hm.check_environment(environment, steps=110)
    # The policy is a normal distribution for each number; environments get it within the bounds.
    policy = hm.MLPActorCritic(environment.spec, width=64, key=jax.random.key(0))
    loss = hm.PPOLoss(ent_coef=0.0)
    ppo = hm.PPO(environment, policy, loss=loss, learning_rate=1e-3, num_envs=64, num_steps=64)
    trainer = hm.Trainer(ppo, updates_per_dispatch=10)
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())
    games = {"episodes": 200, "key": jax.random.key(2)}
    found = hm.evaluate(trainer.policy, environment, greedy=True, **games)
    print(f"mean return {found.estimate('return').mean:+.2f} (without a force: about -10)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
