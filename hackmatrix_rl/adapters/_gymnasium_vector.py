"""HackMatrix for gymnasium: a batch of games. Imported by gymnasium when somebody makes it."""

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Key

from hackmatrix_rl.adapters._gymnasium_spaces import Form, Seen, actions_of, look, space_of
from hackmatrix_rl.env import HackMatrix, HackMatrixState, Timestep, env_keys
from hackmatrix_rl.game import GameConfig, League


class HackMatrixVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many games of HackMatrix in one compiled program: `gymnasium.make_vec("HackMatrix-v0", ...)`.

    A game that ends begins anew in the same step (`AutoresetMode.SAME_STEP`): `info["final_obs"]`
    and `info["final_info"]` hold the end of the old one. By the rules, an illegal action ends the
    episode. `info["action_mask"]` has the legal actions.

    Args:
        num_envs: number of games.
        observation: as in `HackMatrixEnv`.
        league: as in `HackMatrixEnv`.
        max_episode_steps: number of steps after which an episode is truncated.
        render_mode: a batch of games has none.

    Raises:
        ValueError: an argument is none of these.
    """

    # gymnasium declares it so, and no `ClassVar` may take its place.
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": [],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        observation: Form = "dict",
        league: League = "original",
        max_episode_steps: int | None = None,
        render_mode: None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        if render_mode is not None:
            raise ValueError(
                f"render_mode={render_mode!r}: a batch of games has none; "
                'gymnasium.make("HackMatrix-v0", render_mode=...) renders one game'
            )
        self.num_envs = num_envs
        self.single_observation_space = space_of(observation)
        self.single_action_space = actions_of()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._environment = HackMatrix(
            config=GameConfig.of_league(league), max_steps=max_episode_steps, observation="classic"
        )
        self._observation = observation
        self._state: HackMatrixState | None = None

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begins all games by one seed, or each by its own seed of a list."""
        if isinstance(seed, list | tuple | np.ndarray):
            if len(seed) != self.num_envs:
                raise ValueError(f"{len(seed)} seeds for {self.num_envs} games")
            self._keys = jax.vmap(jax.random.key)(np.asarray(seed, np.uint32))
        else:
            super().reset(seed=seed)
            key = jax.random.key(int(self.np_random.integers(2**31)))
            self._keys = env_keys(key, self.num_envs)
        self._steps = 0
        self._state, timestep = _reset(self._environment, self._keys)
        timestep = jax.device_get(timestep)
        return self._look(timestep.observation), {"action_mask": timestep.mask}

    def step(self, actions: Any) -> tuple[Seen, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays one action in each game."""
        if self._state is None:
            raise RuntimeError("the games have not begun: call reset() first")
        self._steps += 1
        self._state, timestep = _step(
            self._environment,
            self._state,
            np.asarray(actions, np.int32),
            self._keys,
            np.int32(self._steps),
        )
        timestep = jax.device_get(timestep)
        info: dict[str, Any] = {"action_mask": timestep.mask}
        done = timestep.terminated | timestep.truncated
        if done.any():
            info |= self._ends(timestep, done)
        return (
            self._look(timestep.observation),
            timestep.reward.astype(np.float64),
            timestep.terminated,
            timestep.truncated,
            info,
        )

    def _ends(self, timestep: Timestep, done: np.ndarray) -> dict[str, Any]:
        """What `info` has of the episodes that ended, as gymnasium's own vector environments do."""
        last = self._look(timestep.last_observation)
        final = np.full(self.num_envs, None, object)
        for game in np.flatnonzero(done):
            final[game] = (
                {name: part[game] for name, part in last.items()}
                if isinstance(last, dict)
                else last[game]
            )
        episode = timestep.episode
        numbers = {
            "stage": episode.extra["stage"].astype(np.int64),
            "score": episode.extra["score"].astype(np.int64),
            "won": episode.extra["won"].astype(bool),
            "action_mask": timestep.last_mask,
        }
        told = {**numbers, **{f"_{name}": done for name in numbers}}
        totals = {"r": episode.total_reward, "l": episode.length, "_r": done, "_l": done}
        told |= {"episode": totals, "_episode": done}
        return {"final_obs": final, "_final_obs": done, "final_info": told, "_final_info": done}

    def _look(self, observation: Any) -> Seen:
        return look(observation, self._observation)


@jax.jit
def _reset(
    environment: HackMatrix, keys: Key[Array, " num_envs"]
) -> tuple[HackMatrixState, Timestep]:
    return environment.reset(jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0))


@jax.jit
def _step(
    environment: HackMatrix,
    state: HackMatrixState,
    actions: Array,
    keys: Key[Array, " num_envs"],
    number: Array,
) -> tuple[HackMatrixState, Timestep]:
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
    return environment.step(state, actions, keys)
