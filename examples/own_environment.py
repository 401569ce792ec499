"""A custom environment with action masks: a small gridworld.

A walker crosses a 6 x 6 board with pits to a goal. It may not leave the board; a pit ends the game.

python own_environment.py [STEPS]

A game is saved as own_environment.html and own_environment.gif. `render` or `draw` is sufficient;
without both, the page shows the observations. From the command line:

hackmatrix-rl train --env own_environment:Gridworld --run-dir runs/walk
hackmatrix-rl watch runs/walk --html game.html
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hackmatrix_rl as hm

SIZE = 6
GOAL = jnp.asarray([SIZE - 1, SIZE - 1])
STEPS = jnp.asarray([[-1, 0], [1, 0], [0, -1], [0, 1]])


class Walk(eqx.Module):
    """The state of one game."""

    here: jax.Array
    pits: jax.Array


class Gridworld(hm.SingleGame):
    """Up, down, left, right; +1 at the goal, -0.5 in a pit, and -0.01 for each step."""

    @property
    def num_actions(self):
        return 4

    def start(self, *, key):
        pits = jax.random.bernoulli(key, 0.15, (SIZE, SIZE))
        # A path along the top and right edges stays free.
        return Walk(jnp.zeros(2, jnp.int32), pits.at[0, :].set(False).at[:, -1].set(False))

    def observe(self, state):
        cell = jnp.zeros((SIZE, SIZE), bool)
        here, goal = cell.at[tuple(state.here)].set(True), cell.at[tuple(GOAL)].set(True)
        return jnp.stack([here, state.pits, goal], axis=-1)

    def legal(self, state):
        there = state.here + STEPS
        return ((there >= 0) & (there < SIZE)).all(axis=1)

    def play(self, state, action, *, key):
        there = jnp.clip(state.here + STEPS[action], 0, SIZE - 1)
        fell, arrived = state.pits[tuple(there)], (there == GOAL).all()
        reward = jnp.where(arrived, 1.0, jnp.where(fell, -0.5, 0.0)) - 0.01
        return hm.Played(Walk(there, state.pits), reward, fell | arrived)

    def render(self, state):
        """The board as text: "@" is the walker, "o" a pit, "G" the goal."""
        cells = np.where(state.pits, "o", ".")
        cells[tuple(GOAL)], cells[tuple(state.here)] = "G", "@"
        return "\n".join(" ".join(row) for row in cells)

    def draw(self, state):
        """The board as pixels, uint8 [height, width, 3]; they are shown instead of the text."""
        cells = np.full((SIZE, SIZE, 3), 235, np.uint8)
        cells[np.asarray(state.pits)] = 40, 40, 40
        cells[tuple(GOAL)], cells[tuple(state.here)] = (21, 128, 61), (11, 91, 211)
        return cells.repeat(24, axis=0).repeat(24, axis=1)


def main(steps: int) -> None:
    environment = hm.Batched(Gridworld(), max_steps=50)
    hm.check_environment(environment)
    network = hm.MLPActorCritic(environment.spec, width=64, key=jax.random.key(0))
    trainer = hm.Trainer(
        hm.PPO(
            environment,
            network,
            # A large entropy bonus: otherwise, an agent that avoids the pits may stop walking.
            loss=hm.PPOLoss(ent_coef=0.03),
            learning_rate=2e-3,
            num_envs=64,
            num_steps=32,
        ),
        updates_per_dispatch=10,
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())
    found = hm.evaluate(trainer.policy, environment, episodes=500, key=jax.random.key(2))
    game = hm.watch(trainer.agent, environment=environment, name="walker")
    game.save("own_environment.html")
    game.save("own_environment.gif")
    print(f"mean return {found.estimate('return').mean:+.2f} (best possible: +0.90)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
