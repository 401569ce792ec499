"""`hackmatrix-rl`, but it trains on CartPole: for tests that need real processes.

python cartpole_command.py train --config FILE ...
"""

import functools
import json
import os
import signal
import sys
import time
from pathlib import Path
from unittest import mock

import jax

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from own_algorithm import Reinforce

from hackmatrix_rl.agent import RolloutCollector
from hackmatrix_rl.agent.networks import GRUActorCritic, MLPActorCritic
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.cli import main
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import network_key, run
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.sharding import mesh

# How much faster than time this process's clock runs.
CLOCK_RATE = float(os.environ.get("HACKMATRIX_TEST_CLOCK_RATE", "1"))
# Whether this process is killed when it is about to save for the first time.
KILLED = bool(os.environ.get("HACKMATRIX_TEST_KILLED"))
ALGORITHM = os.environ.get("HACKMATRIX_TEST_ALGORITHM", "ppo")
# Where each process writes down which games are on its devices.
TOLD = os.environ.get("HACKMATRIX_TEST_TOLD")


def clock():
    return time.monotonic() * CLOCK_RATE


def compose(config, *, key=None, **_):
    key = network_key(config) if key is None else key
    environment = CartPole()
    if ALGORITHM == "reinforce":
        policy = MLPActorCritic(environment.spec, width=8, depth=1, key=key)
        collect = RolloutCollector(config.num_steps)
        algorithm = Reinforce(environment, policy, collect, config.num_envs)
        return Trainer(algorithm, updates_per_dispatch=config.updates_per_dispatch)
    policy = GRUActorCritic(environment.spec, width=8, key=key)
    return Trainer(
        PPO(
            environment,
            policy,
            num_envs=config.num_envs,
            num_steps=config.num_steps,
            num_minibatches=config.minibatches,
            update_epochs=config.update_epochs,
            mesh=mesh(config.mesh),
        ),
        updates_per_dispatch=config.updates_per_dispatch,
    )


def tell_games(trainer, updates, dispatch=Trainer.dispatch):
    metrics = dispatch(trainer, updates)
    games = trainer.state.collector_state.mask
    places = (shard.index[0].indices(len(games)) for shard in games.addressable_shards)
    own = sorted(game for place in places for game in range(*place))
    name = f"games-{jax.process_index()}-of-{jax.process_count()}.json"
    unfinished = Path(TOLD, f"{name}.unfinished")
    unfinished.write_text(json.dumps(own))
    unfinished.replace(Path(TOLD, name))  # whole, also when a test kills this process
    return metrics


def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    with (
        mock.patch("hackmatrix_rl.runs._launch.compose", compose),
        mock.patch("hackmatrix_rl.runs._launch.run", functools.partial(run, clock=clock)),
    ):
        if KILLED:
            mock.patch("hackmatrix_rl.runs.checkpoints.CheckpointWriter.save", killed).start()
        if TOLD:
            mock.patch.object(Trainer, "dispatch", tell_games).start()
        main(sys.argv[1:])
