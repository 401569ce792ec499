"""Builds the modules of a config of Q-learning on HackMatrix."""

from jaxtyping import Array, Key

from hackmatrix_rl.agent import IdentityScale
from hackmatrix_rl.algorithms.r2d2 import R2D2, EpsilonGreedy, Prioritized, SquareRootScale, Uniform
from hackmatrix_rl.checkpoints import initial_weights
from hackmatrix_rl.config import (
    TrainConfig,
    as_flags,
    build_policy,
    build_value_scale,
    make_environment,
)
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs._compose import learning_rate, mesh_of, precision_here
from hackmatrix_rl.runs._preflight import check_games
from hackmatrix_rl.system import make_deterministic
from hackmatrix_rl.training import Trainer, adam
from hackmatrix_rl.training.sharding import FSDP

_FLAGS = ("buffer_size", "grad_accum", "num_envs", "sequence_batch_size")
"""Arguments of `R2D2` that its messages name; the settings have the same names."""


def compose_replay(
    config: TrainConfig, *, key: Key[Array, ""], read_init: bool = False
) -> Trainer[R2D2]:
    """Builds environment, network and trainer. Nothing is compiled yet.

    Args:
        config: the settings.
        key: randomness of the network's weights.
        read_init: as for `compose`.

    Raises:
        ConfigError: the network, the mesh or `config.init` does not exist here or does not fit; the
            network has no memory; or the buffer does not fit into memory.
    """
    if config.deterministic:
        make_deterministic()
    sizes = config.replay_sizes()
    devices = mesh_of(config, at_once=sizes.blocks)
    environment = make_environment(config)
    check_games(config, environment.spec, devices=devices.size)
    # The optimizer holds two numbers for each parameter, and the target network is one more.
    copies = 1 if devices.shape[FSDP] > 1 else 4
    policy = build_policy(config, environment.spec, key=key, copies=copies)
    if read_init and config.init is not None:
        policy, _ = initial_weights(config, policy)
    assert isinstance(config.gamma, float), "the config is checked"
    scale = build_value_scale(config)
    assert isinstance(scale, SquareRootScale | IdentityScale)
    try:
        algorithm = R2D2(
            environment,
            policy,
            gamma=config.gamma,
            n_step=config.n_step,
            dueling=config.dueling,
            sampling=Prioritized() if config.prioritized else Uniform(),
            explore=EpsilonGreedy(config.epsilon),
            value_scale=scale,
            num_envs=config.num_envs,
            train_freq=config.train_freq,
            buffer_size=config.buffer_size,
            sequence_length=config.sequence_length,
            burn_in=config.burn_in,
            sequence_batch_size=config.sequence_batch_size,
            train_steps=config.train_steps,
            grad_accum=config.grad_accum,
            learning_starts=config.learning_starts,
            target_update=config.target_update,
            optimizer=adam(config.max_grad_norm),
            learning_rate=learning_rate(config),
            precision=precision_here(config, policy),
            mesh=devices,
            keep_buffer=config.keep_buffer,
        )
    except ValueError as error:
        raise ConfigError(_said(config, str(error))) from error
    return Trainer(algorithm, updates_per_dispatch=config.updates_per_dispatch)


def _said(config: TrainConfig, message: str) -> str:
    """A message of the modules in the words of the settings."""
    if message.startswith("policy "):
        instead = message.replace("use hm.GRUActorCritic or hm.LSTMActorCritic", "").rstrip("; ")
        return f"--network {config.network}: {instead}. Use --network gru or --network lstm."
    return as_flags(message, {name: name for name in _FLAGS})
