"""Tasks of NeuroGym in this package: they stay in Python, and each trial is an episode."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hackmatrix_rl.adapters._extras import require
from hackmatrix_rl.adapters._from_gymnasium import GymnasiumGames, Host


class Trials:
    """Tasks of NeuroGym side by side, with the methods of a gymnasium `VectorEnv`.

    NeuroGym begins the next trial in the step that ends one, and shows its first position. So
    nobody sees the last position of a trial; an end by the rules does not need it.
    """

    def __init__(self, make: Callable[[], Any], count: int) -> None:
        self._tasks = [make() for _ in range(count)]
        for task in self._tasks:
            if not hasattr(task.unwrapped, "new_trial"):
                raise ValueError(f"{task.unwrapped} has no trials; expected a neurogym.TrialEnv")
        self.single_observation_space = self._tasks[0].observation_space
        self.single_action_space = self._tasks[0].action_space

    def reset(self, *, seed: list[int]) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins a trial of each task, with its own seed. NeuroGym plays its first step."""
        seen = []
        for task, own in zip(self._tasks, seed, strict=True):
            task.unwrapped.seed(own)
            seen.append(task.reset(seed=own)[0])
        return np.stack(seen), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays an action in each; a trial that ends is terminated."""
        played = [task.step(int(action)) for task, action in zip(self._tasks, actions, strict=True)]
        seen = np.stack([each[0] for each in played])
        reward = np.asarray([each[1] for each in played], np.float32)
        terminated = np.asarray([each[4]["new_trial"] or each[2] for each in played], bool)
        return seen, reward, terminated, np.zeros_like(terminated), {"final_obs": seen}

    def close(self) -> None:
        """Closes the tasks."""
        for task in self._tasks:
            task.close()


def from_neurogym(make: str | Callable[[], Any], **settings: Any) -> GymnasiumGames:
    """Tasks of NeuroGym as an `Environment` of this package; slower, since Python plays them.

    Each trial is an episode, which ends by the rules. NeuroGym needs an old gymnasium, so it is an
    extra that does not go together with `gymnasium`.

    Source: Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing
    neuroscience tasks".

    Args:
        make: a name, such as `"DelayMatchSample-v0"`; or a function that makes a
            `neurogym.TrialEnv`.
        settings: passed to the task of that name, such as `sigma=0.0` or `timing={...}`.

    Raises:
        ConfigError: neurogym is not installed.
        ValueError: the task has no trials, or actions or observations are of a kind that this
            package does not read.
    """
    neurogym = require("neurogym", extra="neurogym", caller="from_neurogym")
    one = partial(neurogym.make, make, **settings) if isinstance(make, str) else make
    return GymnasiumGames(Host(partial(Trials, one), check=lambda games: None))
