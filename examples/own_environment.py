"""A custom environment, trained with the same modules as HackMatrix.

A corridor has eight cells, and the prize lies at one of its ends. Only the first observation shows
which end, so the network has to remember it.

python own_environment.py [STEPS]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.env import (
    EnvSpec,
    EpisodeStatistics,
)

LENGTH = 8
LIMIT = 30


class Corridors(eqx.Module):
    """The state of a batch of games."""

    place: jax.Array
    prize_right: jax.Array
    step: jax.Array


class Corridor(hm.Environment):
    """Walk left (0) or right (1); 1 for the end with the prize, -1 for the other."""

    @property
    def spec(self):
        return EnvSpec(num_actions=2, observation=jax.ShapeDtypeStruct((2,), jnp.float32))

    @property
    def truncates(self):
        return True

    def reset(self, keys):
        games = self.start(keys)
        nothing = jnp.zeros(keys.shape[0])
        return games, self.timestep(games, games, nothing, nothing > 0, nothing > 0)

    def step(self, state, actions, keys):
        place = state.place + 2 * actions - 1
        after = Corridors(place, state.prize_right, state.step + 1)
        at_end = (place == 0) | (place == LENGTH - 1)
        right = place == LENGTH - 1
        reward = jnp.where(at_end, jnp.where(right == state.prize_right, 1.0, -1.0), 0.0)
        truncated = ~at_end & (after.step >= LIMIT)
        done = at_end | truncated
        # Games that ended start again; the timestep still reports their last position.
        games = jax.tree.map(lambda new, old: jnp.where(done, new, old), self.start(keys), after)
        return games, self.timestep(games, after, reward, at_end, truncated)

    def start(self, keys):
        count = keys.shape[0]
        return Corridors(
            place=jnp.full(count, LENGTH // 2, jnp.int32),
            prize_right=jax.vmap(jax.random.bernoulli)(keys),
            step=jnp.zeros(count, jnp.int32),
        )

    def see(self, games):
        hint = jnp.where(games.step == 0, jnp.where(games.prize_right, 1.0, -1.0), 0.0)
        return jnp.stack([games.place / LENGTH, hint], axis=1)

    def timestep(self, games, last, reward, terminated, truncated):
        mask = jnp.ones((reward.shape[0], 2), bool)
        return hm.Timestep(
            observation=self.see(games),
            mask=mask,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            last_observation=self.see(last),
            last_mask=mask,
            terms={},
            # The only reward of an episode comes with its last step.
            episode=EpisodeStatistics(total_reward=reward, length=last.step, extra={}),
        )


def main(steps: int) -> None:
    environment = Corridor()
    network = hm.GRUActorCritic(environment.spec, width=32, key=jax.random.key(0))
    trainer = hm.Trainer(
        environment,
        network,
        learning_rate=3e-3,
        num_envs=64,
        num_steps=32,
        updates_per_dispatch=10,
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())
    found = hm.evaluate(trainer.policy, environment, episodes=200, key=jax.random.key(2))
    print(f"mean return {found.estimate('return').mean:+.2f} (best possible: +1)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
