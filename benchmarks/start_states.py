"""Trains in a corridor from different start states for equal steps: a table of learning.md.

    python benchmarks/start_states.py [--steps 150_000] [--seeds 0 1 2]

The corridor is the one of docs/own_environment.md. The policy plays 100 full games at the end.
"""

import argparse

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

import hackmatrix_rl as hm
from hackmatrix_rl.env import BatchedState
from hackmatrix_rl.training import Linear

CELLS = 48
SIZES = {"num_envs": 32, "num_steps": 32, "learning_rate": 1e-3}


class Corridor(hm.SingleGame[Array]):
    """48 cells in a row; the reward is at the end."""

    num_actions = 2

    def start(self, *, key: Array) -> Array:
        """The first cell."""
        return jnp.int32(0)

    def observe(self, cell: Array) -> Array:
        """The cell, one-hot."""
        return jax.nn.one_hot(cell, CELLS)

    def play(self, cell: Array, action: Array, *, key: Array) -> hm.Played:
        """A step to the right for action 1, otherwise to the left."""
        after = jnp.clip(cell + jnp.where(action == 1, 1, -1), 0, CELLS - 1)
        at_end = after == CELLS - 1
        return hm.Played(after, jnp.where(at_end, 1.0, 0.0), at_end)


def reached(before: BatchedState[Array], after: BatchedState[Array]) -> Bool[Array, " cells"]:
    """The cell, if it is further than before."""
    return (jnp.arange(CELLS) == after.games) & (after.games > before.games)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    given = parser.parse_args()
    game = hm.Batched(Corridor(), max_steps=80)
    easy_first = jnp.arange(CELLS - 2, -1, -1, dtype=jnp.int32)
    curriculum = hm.GivenStates(easy_first, Linear(0, 1, over=3_000))
    for name, environment in {
        "the start": game,
        "GivenStates": hm.StartStates(game, curriculum, share=0.5),
        "Archive": hm.StartStates(game, hm.Archive(reached), share=0.5),
    }.items():
        policy = hm.MLPActorCritic(environment.spec, width=32, key=jax.random.key(0))
        ppo = hm.PPO(environment, policy, loss=hm.PPOLoss(ent_coef=0.01), **SIZES)
        trainer = hm.Trainer(ppo, updates_per_dispatch=10)
        returns = []
        for seed in given.seeds:
            trainer.fit(given.steps, key=jax.random.key(seed))
            found = hm.evaluate(trainer.policy, game, episodes=100, key=jax.random.key(9))
            returns.append(found.as_dict()["return"]["mean"])
        print(f"| {name} | {', '.join(f'{mean:.2f}' for mean in returns)} |", flush=True)


if __name__ == "__main__":
    main()
