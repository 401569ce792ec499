"""A custom network, trained on HackMatrix.

python own_network.py [STEPS]
hackmatrix-rl train --network own_network:Residual
"""

import sys

import equinox as eqx
import jax

import hackmatrix_rl as hm


class Residual(hm.ActorCritic):
    """Dense layers with residual connections."""

    encode: object = eqx.field(static=True)
    first: eqx.nn.Linear
    blocks: list[eqx.nn.Linear]
    policy: eqx.nn.Linear
    value: eqx.nn.Linear

    def __init__(self, spec, *, width=128, depth=3, key):
        keys = jax.random.split(key, depth + 3)
        self.encode = spec.encode
        self.first = eqx.nn.Linear(spec.num_features, width, key=keys[0])
        self.blocks = [eqx.nn.Linear(width, width, key=key) for key in keys[3:]]
        policy = eqx.nn.Linear(width, spec.num_actions, key=keys[1])
        # Small initial logits: a nearly uniform policy explores more.
        self.policy = eqx.tree_at(lambda layer: layer.weight, policy, 0.01 * policy.weight)
        self.value = eqx.nn.Linear(width, "scalar", key=keys[2])

    def __call__(self, observation, carry):
        # `--precision bf16` casts parameters and features, and casts the outputs to float32.
        features = self.encode(observation).ravel()
        hidden = jax.nn.relu(self.first(features))
        for block in self.blocks:
            hidden = hidden + jax.nn.relu(block(hidden))
        return self.policy(hidden), self.value(hidden), carry


def main(steps: int) -> None:
    environment = hm.HackMatrix(max_steps=1000)
    network = Residual(environment.spec, key=jax.random.key(0))
    trainer = hm.Trainer(
        hm.PPO(environment, network, num_envs=128, num_steps=32), updates_per_dispatch=16
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
