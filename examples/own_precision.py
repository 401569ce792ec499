"""A custom precision policy, trained on CartPole.

The network computes in float16 except for its heads, with a constant loss scale. Only
`cast_to_compute` is required; the other methods scale the loss.

python own_precision.py [STEPS]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.agent.precision import parameters_of, split_trainable
from hackmatrix_rl.env import CartPole


class HalfBody(hm.PrecisionPolicy):
    def cast_to_compute(self, module):
        # Only parameters are cast, not counters or running statistics.
        parameters, rest = split_trainable(module)

        def cast(path, leaf):
            in_heads = ".heads" in jax.tree_util.keystr(path)
            return leaf if in_heads else leaf.astype(jnp.float16)

        return eqx.combine(jax.tree_util.tree_map_with_path(cast, parameters), rest)

    def initial_scaling(self):
        # An array, because it is part of the training state and of checkpoints.
        return jnp.float32(1024.0)

    def loss_factor(self, scaling):
        return scaling

    def report(self, scaling):
        return {"loss_scale": scaling}


def main(steps: int) -> None:
    environment = CartPole()
    network = hm.MLPActorCritic(environment.spec, width=32, key=jax.random.key(0))
    trainer = hm.Trainer(
        hm.PPO(
            environment,
            network,
            learning_rate=2e-3,
            precision=HalfBody(),
            num_envs=32,
            num_steps=64,
        ),
        updates_per_dispatch=8,
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())
    policy = trainer.policy
    computed = trainer.algorithm.precision.cast_to_compute(policy)
    for (path, leaf), cast in zip(
        jax.tree_util.tree_leaves_with_path(parameters_of(policy)),
        jax.tree.leaves(parameters_of(computed)),
        strict=True,
    ):
        print(f"{jax.tree_util.keystr(path):24} {leaf.dtype}  {cast.dtype}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
