"""Training on a mesh of eight devices, here simulated on one CPU.

On a machine with eight GPUs or TPU cores, remove the two lines with `os.environ`.

python eight_devices.py [STEPS]
"""

import os
import sys

# JAX reads these when it is imported.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

import hackmatrix_rl as hm


def trained(text: str, steps: int) -> hm.ActorCritic:
    environment = hm.CartPole()
    network = hm.MLPActorCritic(environment.spec, width=32, key=jax.random.key(0))
    trainer = hm.Trainer(
        hm.PPO(
            environment,
            network,
            num_envs=64,
            num_steps=32,
            learning_rate=1e-3,
            mesh=hm.mesh(text, jax.devices()[: 8 if text != "data=1" else 1]),
        )
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(f"{text:14} {metrics.summary()}")
    return trainer.policy


def main(steps: int) -> None:
    one = trained("data=1", steps)
    # Games are sharded over all devices, parameters and optimizer state over pairs of devices.
    eight = trained("data=4,fsdp=2", steps)
    differences = [abs(a - b).max() for a, b in zip(*map(parameters, (one, eight)), strict=True)]
    print(f"largest difference of a parameter: {max(differences):.1e}")


def parameters(policy: hm.ActorCritic) -> list[jax.Array]:
    found = [leaf for leaf in jax.tree.leaves(policy) if isinstance(leaf, jax.Array)]
    return jax.device_get(found)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
