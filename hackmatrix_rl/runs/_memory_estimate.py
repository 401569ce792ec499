"""Estimates the memory of training from shapes, before anything is compiled."""

from dataclasses import dataclass
from typing import Any

from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.game import GameConfig
from hackmatrix_rl.system import bytes_of
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.sharding import bytes_per_device


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the fullest device. The compiler's figure is more exact: see `--dry-run`.

    Attributes:
        state: the training state, which is always there.
        working: what an update surely needs beside it (`Algorithm.working_bytes`).
        checkpoint: one checkpoint on disk before compression, over all devices.
    """

    state: int
    working: int
    checkpoint: int

    @property
    def sure(self) -> int:
        """Bytes that every compiler needs."""
        return self.state + self.working


def estimate_memory(trainer: Trainer[Any]) -> MemoryEstimate:
    """Estimates a trainer's memory from the shapes of its arrays.

    This traces a reset, which takes seconds but no memory.
    """
    state = trainer.abstract_state()
    algorithm = trainer.algorithm
    return MemoryEstimate(
        state=bytes_per_device(state),
        working=algorithm.working_bytes(state),
        checkpoint=bytes_of(algorithm.to_store(state)) + bytes_of(algorithm.policy(state)),
    )


def least_memory(
    game: GameConfig | None, spec: EnvSpec, *, games: int, num_steps: int
) -> MemoryEstimate:
    """The least memory of some games, by arithmetic and without tracing.

    Args:
        game: capacities of each game; `None` in another environment.
        spec: spec of the environment.
        games: number of games on a device.
        num_steps: steps of a rollout; 0 without one.
    """
    # Count only the snapshots, and in them one word for each enemy and transmission.
    held = 0 if game is None else game.history * 4 * (game.max_enemies + game.max_transmissions)
    state = games * held
    # Of a rollout only what is seen and the legal actions.
    rollout = games * num_steps * (bytes_of(spec.observation) + spec.num_actions)
    return MemoryEstimate(state=state, working=rollout, checkpoint=state)
