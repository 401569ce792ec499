"""Games as moving pictures during training."""

from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, check_is_environment
from hackmatrix_rl.errors import check_key, number, whole
from hackmatrix_rl.evaluation import play_steps
from hackmatrix_rl.system import is_process_zero
from hackmatrix_rl.training._evaluate_every import EVALUATION
from hackmatrix_rl.training._hooks import Hook
from hackmatrix_rl.training._report import Metrics
from hackmatrix_rl.training._trainer import Trainer


class SaveGifEvery(Hook):
    """A hook that saves a game as `update-00000010.gif` every N updates.

    The environment draws itself (`Environment.render`; HackMatrix has drawings of its own). Each
    game has the same beginning, and its own random keys, so the training has the same bits with
    this hook and without it. A dispatch ends at each multiple of N.

    Args:
        updates: number of updates between two games (N).
        folder: for the files; it is made if it is missing.
        environment: the environment to play in; by default the trainer's.
        key: source of all randomness; by default a fixed key.
        max_steps: step limit of a game.
        seconds_per_frame: for which a position stays.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range.
        ConfigError: at the first game, if the environment cannot draw itself.
    """

    def __init__(
        self,
        updates: int,
        folder: str | Path = "gifs",
        *,
        environment: Environment | None = None,
        key: Key[Array, ""] | None = None,
        max_steps: int = 500,
        seconds_per_frame: float = 0.1,
    ) -> None:
        if environment is not None:
            check_is_environment(environment)
        if key is None:
            key = jax.random.fold_in(jax.random.key(0), EVALUATION)
        check_key(key)
        self._updates = whole("updates", updates)
        self._folder = Path(folder)
        self._environment = environment
        self._key = key
        self._max_steps = whole("max_steps", max_steps)
        self._seconds = number("seconds_per_frame", seconds_per_frame)

    def updates_until_due(self, trainer: Trainer[Any]) -> int:
        """The updates until the next game."""
        return self._updates - int(trainer.state.update) % self._updates

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Plays and saves a game if one is due."""
        if metrics.updates % self._updates:
            return
        # Every process takes part in gathering the network, and process 0 alone plays.
        agent = trainer.agent
        if not is_process_zero():
            return
        from hackmatrix_rl.view import drawings_of, save_gif  # other trainings draw nothing

        environment = trainer.environment if self._environment is None else self._environment
        steps = play_steps(agent, environment, self._key, max_steps=self._max_steps)
        drawings = drawings_of(environment, [step.state for step in steps])
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"update-{metrics.updates:08}.gif"
        save_gif(drawings, file, seconds_per_frame=self._seconds)
