"""HackMatrix for gymnasium: one game, and a batch. gymnasium imports this module to make them."""

from typing import Any, Literal

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Int32, Key

from hackmatrix_rl import env
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, GameConfig, League, State, play
from hackmatrix_rl.system import check_not_forked
from hackmatrix_rl.system.errors import counts
from hackmatrix_rl.view import draw, frame_of, image_of, text_of

Form = Literal["dict", "flat", "original"]
Seen = dict[str, np.ndarray] | np.ndarray
_PARTS = ("player", "programs", "grid")
_MOST = 100.0
"""An upper bound of every number of the observation; most are at most 1 (rules, section 10)."""

_legal = jax.jit(lambda game, state: game.legal(state))
_observe = jax.jit(lambda game, state: game.observe(state))


def space_of(observation: Form) -> spaces.Space[Any]:
    spec = env.HackMatrix(observation="classic").spec.observation
    parts: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(0.0, _MOST, getattr(spec, name).shape, np.float32) for name in _PARTS
    }
    if observation == "original":
        parts["programs"] = spaces.Box(0, 1, parts["programs"].shape, np.int32)
    if observation in ("dict", "original"):
        return spaces.Dict(parts)
    if observation == "flat":
        size = sum(int(np.prod(part.shape or ())) for part in parts.values())
        return spaces.Box(0.0, _MOST, (size,), np.float32)
    raise ValueError(f"observation must be dict, flat or original, not {observation!r}")


def look(observed: env.Observation, form: Form) -> Seen:
    """The classic observation of one game or a batch as NumPy arrays, in the given form."""
    parts = {name: np.asarray(getattr(observed, name)) for name in _PARTS}
    if form == "original":
        parts["programs"] = parts["programs"].astype(np.int32)
    if form != "flat":
        return parts
    batch = parts["player"].shape[:-1]
    return np.concatenate([part.reshape(*batch, -1) for part in parts.values()], axis=-1)


class HackMatrixEnv(gymnasium.Env[Any, np.int64]):
    """One game of HackMatrix: `gymnasium.make("HackMatrix-v0")`.

    An illegal action ends the episode; it does not raise. `info["action_mask"]` and
    `action_masks()` hold the legal actions. `info` also has `stage`, `score` and `won`.

    Args:
        render_mode: `"ansi"` (text), `"rgb_array"` (pixels), or `None`.
        observation: `"dict"`: `player` (10), `programs` (23) and `grid` (6, 6, 42) of the classic
            observation (rules, section 10), float32. `"original"`: the same with int32 programs, as
            in the original's environment. `"flat"`: all in one float32 vector.
        league: `"original"`, or `"no-rewind"`, where UNDO does not reach across stages.

    Raises:
        ValueError: there is no such observation, league or render mode.
    """

    # gymnasium declares an instance attribute, which mypy lets no `ClassVar` override.
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        *,
        render_mode: Literal["ansi", "rgb_array"] | None = None,
        observation: Form = "dict",
        league: League = "original",
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be ansi, rgb_array or None, not {render_mode!r}")
        self.observation_space = space_of(observation)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.render_mode = render_mode
        self._game = env.HackMatrixGame(GameConfig.of_league(league))
        self._observation = observation
        self._state: State | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Starts a game. The seed determines all its random numbers."""
        check_not_forked("HackMatrix-v0")
        super().reset(seed=seed)
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._steps = 0
        self._state, mask = _start(self._game, self._key)
        return self._look(), self._info(mask, won=False)

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Plays one action. Only gymnasium's `max_episode_steps` truncates an episode."""
        before = self._begun()
        self._steps += 1
        self._state, mask, reward, over, won = _step(
            self._game, before, jnp.int32(action), self._key, jnp.int32(self._steps)
        )
        return self._look(), float(reward), bool(over), False, self._info(mask, won=bool(won))

    def action_masks(self) -> np.ndarray:
        """The mask of the legal actions. MaskablePPO of sb3-contrib calls this method."""
        return np.asarray(_legal(self._game, self._begun()))

    def render(self) -> Any:
        """The position as 19 lines of text or as RGB pixels; `None` without a render mode."""
        frame = frame_of(self._begun()).seen()
        if self.render_mode == "ansi":
            return text_of(frame).plain
        return np.asarray(image_of(draw(frame))) if self.render_mode == "rgb_array" else None

    def _begun(self) -> State:
        if self._state is None:
            raise RuntimeError("the game has not begun: call reset() first")
        return self._state

    def _look(self) -> Seen:
        observation = jax.device_get(_observe(self._game, self._begun()))
        return look(observation, self._observation)

    def _info(self, mask: Array, *, won: bool) -> dict[str, Any]:
        position = self._begun().position
        return {
            "stage": int(position.stage),
            "score": int(position.player.score),
            "won": won,
            "action_mask": np.asarray(mask),
        }


@jax.jit
def _start(game: env.HackMatrixGame, key: Key[Array, ""]) -> tuple[State, Bool[Array, " actions"]]:
    state = game.start(key=key)
    return state, game.legal(state)


@jax.jit
def _step(
    game: env.HackMatrixGame,
    state: State,
    action: Int32[Array, ""],
    key: Key[Array, ""],
    number: Int32[Array, ""],
) -> tuple[State, Bool[Array, " actions"], Array, Array, Array]:
    key = jax.random.fold_in(key, number)
    after, outcome = play(game.config, state, action, key=key)
    over = ~outcome.legal | outcome.died | outcome.won
    return after, game.legal(after), outcome.terms.total(), over, outcome.won


class HackMatrixVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many games of HackMatrix in one compiled program: `gymnasium.make_vec("HackMatrix-v0", ...)`.

    A game that ends is reset in the same step (`AutoresetMode.SAME_STEP`): `info["final_obs"]`
    and `info["final_info"]` describe the end of the finished episode. An illegal action ends the
    episode. `info["action_mask"]` holds the legal actions.

    Args:
        num_envs: number of games.
        observation: as in `HackMatrixEnv`.
        league: as in `HackMatrixEnv`.
        max_episode_steps: number of steps after which an episode is truncated.
        render_mode: only `None`; a batch of games cannot be rendered.

    Raises:
        ValueError: an argument has another value.
    """

    # See `HackMatrixEnv`.
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
        counts(num_envs=num_envs)
        if render_mode is not None:
            raise ValueError(
                f"render_mode={render_mode!r}: a batch of games has none; "
                'gymnasium.make("HackMatrix-v0", render_mode=...) renders one game'
            )
        self.num_envs = num_envs
        self.single_observation_space = space_of(observation)
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._environment = env.HackMatrix(
            config=GameConfig.of_league(league), max_steps=max_episode_steps, observation="classic"
        )
        self._observation = observation
        self._state: env.HackMatrixState | None = None

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Starts all games from one seed, or each from its seed in a list."""
        check_not_forked("HackMatrix-v0")
        if isinstance(seed, list | tuple | np.ndarray):
            if len(seed) != self.num_envs:
                raise ValueError(f"{len(seed)} seeds for {self.num_envs} games")
            self._keys = jax.vmap(jax.random.key)(np.asarray(seed, np.uint32))
        else:
            super().reset(seed=seed)
            key = jax.random.key(int(self.np_random.integers(2**31)))
            self._keys = env.env_keys(key, self.num_envs)
        self._steps = 0
        self._state, timestep = _reset(self._environment, self._keys)
        timestep = jax.device_get(timestep)
        return self._look(timestep.observation), {"action_mask": timestep.mask}

    def step(self, actions: Any) -> tuple[Seen, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays one action in each game."""
        if self._state is None:
            raise RuntimeError("the games have not begun: call reset() first")
        self._steps += 1
        played, count = np.asarray(actions, np.int32), np.int32(self._steps)
        self._state, timestep = _step_all(self._environment, self._state, played, self._keys, count)
        timestep = jax.device_get(timestep)
        info: dict[str, Any] = {"action_mask": timestep.mask}
        done = timestep.terminated | timestep.truncated
        if done.any():
            info |= self._ends(timestep, done)
        seen, reward = self._look(timestep.observation), timestep.reward.astype(np.float64)
        return seen, reward, timestep.terminated, timestep.truncated, info

    def _ends(self, timestep: env.Timestep, done: np.ndarray) -> dict[str, Any]:
        """The fields of `info` about finished episodes, like gymnasium's vector environments."""
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
        final_info = {**numbers, **{f"_{name}": done for name in numbers}}
        totals = {"r": episode.total_reward, "l": episode.length, "_r": done, "_l": done}
        final_info |= {"episode": totals, "_episode": done}
        return {
            "final_obs": final,
            "_final_obs": done,
            "final_info": final_info,
            "_final_info": done,
        }

    def _look(self, observation: Any) -> Seen:
        return look(observation, self._observation)


@jax.jit
def _reset(
    environment: env.HackMatrix, keys: Key[Array, " num_envs"]
) -> tuple[env.HackMatrixState, env.Timestep]:
    return environment.reset(jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0))


@jax.jit
def _step_all(
    environment: env.HackMatrix,
    state: env.HackMatrixState,
    actions: Array,
    keys: Key[Array, " num_envs"],
    number: Array,
) -> tuple[env.HackMatrixState, env.Timestep]:
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
    return environment.step(state, actions, keys)
