"""A custom loss: PPO's, with a larger entropy bonus where more actions are legal.

A loss is any function of a policy and a `Batch` that returns a scalar and metrics.

python own_loss.py [STEPS]
"""

import dataclasses
import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Batch, LossMetrics


class Curious(eqx.Module):
    """PPO's loss minus a bonus."""

    base: hm.PPOLoss = hm.PPOLoss(clip_coef=0.2, ent_coef=0.0)
    bonus: float = 0.01

    def __call__(self, policy, batch: Batch) -> tuple[jax.Array, LossMetrics]:
        loss, metrics = self.base(policy, batch)
        logits, _ = policy.unroll(batch.observation, batch.initial_carry, batch.done)
        entropy = hm.MaskedCategorical(logits, batch.mask).entropy()
        choices = jnp.sum(batch.mask.astype(jnp.float32), axis=-1)
        bonus = jnp.mean(entropy * jnp.log1p(choices))
        return loss - self.bonus * bonus, dataclasses.replace(metrics, extra={"bonus": bonus})


def main(steps: int) -> None:
    environment = hm.HackMatrix(max_steps=1000)
    network = hm.MLPActorCritic(environment.spec, width=64, key=jax.random.key(0))
    trainer = hm.Trainer(
        hm.PPO(environment, network, loss=Curious(), num_envs=128, num_steps=32),
        updates_per_dispatch=8,
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary(), f"bonus {metrics.as_dict()['bonus']:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
