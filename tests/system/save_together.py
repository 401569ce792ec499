"""One of two processes that train together and save: `save_together.py PORT PROCESS FILE`.

It writes checkpoints beside the file, too. Process 0 alone reads each of them back.
"""

import sys

import jax

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs.checkpoints import CheckpointWriter
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system import connect
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.sharding import mesh


def trainer_of(devices):
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, depth=1, key=jax.random.key(1))
    return Trainer(
        PPO(environment, policy, num_envs=8, num_steps=4, num_minibatches=2, mesh=devices)
    )


def main(port, process, file):
    connect(f"127.0.0.1:{port}", 2, process)
    trainer = trainer_of(mesh("data=2"))
    trainer.start(jax.random.key(0))
    trainer.dispatch(2)
    trainer.save(file)
    config = make_config("debug", {})
    with CheckpointWriter(f"{file}s", keep=3, config=config) as checkpoints:
        for update in (1, 2):
            state = trainer.state
            parts = {
                "policy": trainer.algorithm.policy(state),
                "training": state.collector_state.mask,
            }
            checkpoints.save(update, **parts, counters={})
            errors = [each.error for each in checkpoints.wait()]
            assert errors == [None], errors
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
