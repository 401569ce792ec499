"""The settings of Q-learning that replays sequences."""

from dataclasses import dataclass
from typing import no_type_check

from hackmatrix_rl.config._options import option


@no_type_check  # of beartype at run time: `RunConfig` checks the types, with clear messages
@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """The settings that only `--algorithm r2d2` has. Each is a flag and a key of a TOML file."""

    sequence_length: int = option(
        10, "Q-learning", "Steps of a replayed sequence that are learned from.", minimum=1
    )
    burn_in: int = option(
        0, "Q-learning", "Steps before them that only bring the memory up to date.", minimum=0
    )
    sequence_batch_size: int = option(
        64, "Q-learning", "Sequences of a gradient step, all at once.", minimum=1
    )
    train_freq: int = option(
        4,
        "Q-learning",
        "Steps in each game between two trainings: 1 learns most from each, 8 is fast.",
        minimum=1,
    )
    train_steps: int = option(1, "Q-learning", "Gradient steps of a training.", minimum=1)
    learning_starts: int = option(
        10_000, "Q-learning", "Steps to play before the first gradient step.", minimum=0
    )
    n_step: int = option(
        5, "Q-learning", "Rewards in a target, before the target network's value.", minimum=1
    )
    target_update: int = option(
        100, "Q-learning", "Gradient steps until the target network is renewed.", minimum=1
    )
    epsilon: float = option(
        0.4,
        "Q-learning",
        "Share of random actions in the game that explores most; its 8th power is the least.",
        above=0,
        maximum=1,
    )
    dueling: bool = option(
        True, "Q-learning", "Learn a position's value and its actions' advantages apart."
    )
    prioritized: bool = option(
        False, "Q-learning", "Replay sequences with large errors more often."
    )
    rescale_values: bool = option(
        True, "Q-learning", "Learn Q-values in units that are nearly a square root of reward."
    )
    keep_buffer: bool = option(
        True,
        "Q-learning",
        "Keep the buffer in checkpoints; without it they are small, and resuming is not exact.",
    )
