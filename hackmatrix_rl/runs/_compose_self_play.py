"""Builds the modules of a config of self-play."""

from jaxtyping import Array, Key

from hackmatrix_rl.agent import Schedule
from hackmatrix_rl.algorithms.self_play import SearchLoss, SelfPlay, VertexPermutations
from hackmatrix_rl.config import (
    SelfPlayConfig,
    as_flags,
    build_named,
    schedule_of,
)
from hackmatrix_rl.env import Batched, CliqueGame
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs._compose import mesh_of, precision_here
from hackmatrix_rl.system import make_deterministic
from hackmatrix_rl.training import Constant, Trainer, adam
from hackmatrix_rl.training.sharding import FSDP

_FLAGS = {
    "game_batch_size": "game_batch_size",
    "policy": "network",
    "training_batch_size": "training_batch_size",
}
"""Arguments of `SelfPlay` that its messages name, and the settings that they are."""


def compose_self_play(config: SelfPlayConfig, *, key: Key[Array, ""]) -> Trainer[SelfPlay]:
    """Builds game, network and trainer. Nothing is compiled yet.

    Args:
        config: the settings.
        key: randomness of the network's weights.

    Raises:
        ConfigError: the network or the mesh does not exist here, or does not fit.
    """
    if config.deterministic:
        make_deterministic()
    sizes = config.sizes()
    devices = mesh_of(config, at_once=sizes.blocks)
    game = CliqueGame(config.game())
    # The optimizer holds two numbers for each parameter.
    copies = 1 if devices.shape[FSDP] > 1 else 3
    policy = build_named(config, Batched(game).spec, key=key, copies=copies)
    computes = precision_here(config, policy)
    try:
        algorithm = SelfPlay(
            game,
            policy,
            search=config.search(),
            symmetry=VertexPermutations(config.vertices) if config.symmetries else None,
            loss=SearchLoss(config.vf_coef),
            game_batch_size=config.game_batch_size,
            moves_per_update=config.moves_per_update,
            buffer_size=config.buffer_size,
            training_batch_size=config.training_batch_size,
            train_steps=config.train_steps,
            opening=config.opening,
            optimizer=adam(config.max_grad_norm),
            learning_rate=_learning_rate(config),
            precision=computes,
            mesh=devices,
        )
    except ValueError as error:
        raise ConfigError(_said(config, str(error))) from error
    return Trainer(algorithm, updates_per_dispatch=config.updates_per_dispatch)


def _said(config: SelfPlayConfig, message: str) -> str:
    """A message of the modules in the words of the settings."""
    if message.startswith("policy "):
        return f"--network {config.network}: {message}."
    return as_flags(message, _FLAGS)


def _learning_rate(config: SelfPlayConfig) -> Schedule:
    rate = schedule_of(config.learning_rate, steps=config.num_games)
    if isinstance(rate, Schedule):
        return rate
    assert isinstance(rate, float)
    return Constant(rate)
