"""A teacher of CartPole, and a small student of it."""

import jax
import jax.numpy as jnp

from hackmatrix_rl.agent.networks import GRUActorCritic, MLPActorCritic
from hackmatrix_rl.algorithms.imitation import CloneLoss, Imitation
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.evaluation import Agent
from hackmatrix_rl.training import Trainer

NUM_ENVS, NUM_STEPS = 16, 16
UPDATE = NUM_ENVS * NUM_STEPS


class Balancer(Agent):
    """Pushes to where the pole falls: it keeps every pole up."""

    def act(self, observation, mask, carry, *, key):
        position, speed, angle, turning = observation
        lean = angle + 0.5 * turning + 0.05 * position + 0.1 * speed
        return (lean > 0).astype(jnp.int32), carry


def imitation(
    *,
    memory=False,
    mesh=None,
    num_envs=NUM_ENVS,
    teacher=None,
    learning_rate=1e-2,
    modules=None,
    seed=0,
    **changes,
):
    environment = CartPole(max_steps=60)
    network = GRUActorCritic if memory else MLPActorCritic
    policy = network(environment.spec, width=16, key=jax.random.key(seed))
    of_ppo = {"learning_rate": learning_rate, "mesh": mesh, **(modules or {})}
    ppo = PPO(
        environment,
        policy,
        loss=CloneLoss(),
        num_envs=num_envs,
        num_steps=NUM_STEPS,
        num_minibatches=2,
        update_epochs=2,
        **of_ppo,
    )
    sizes = {"buffer_size": 4 * UPDATE, **changes}
    return Trainer(Imitation(ppo, teacher or Balancer(), **sizes), updates_per_dispatch=2)
