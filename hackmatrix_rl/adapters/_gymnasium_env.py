"""HackMatrix for gymnasium: one game. Imported by gymnasium when somebody makes it."""

from typing import Any, Literal

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key

from hackmatrix_rl.adapters._gymnasium_spaces import Form, Seen, actions_of, look, space_of
from hackmatrix_rl.env import HackMatrixGame
from hackmatrix_rl.game import GameConfig, League, State, play
from hackmatrix_rl.view import draw, frame_of, image_of, text_of


class HackMatrixEnv(gymnasium.Env[Any, np.int64]):
    """One game of HackMatrix: `gymnasium.make("HackMatrix-v0")`.

    By the rules, an illegal action ends the episode; it does not raise. `info["action_mask"]` and
    `action_masks()` tell which ones are legal. `info` also has `stage`, `score` and `won`.

    Args:
        render_mode: `"ansi"` (a text), `"rgb_array"` (a picture), or `None`.
        observation: `"dict"`: `player` (10), `programs` (23) and `grid` (6, 6, 42) of the classic
            observation (rules, section 10), float32. `"flat"`: the same in one vector.
        league: `"original"`, or `"no-rewind"`, where UNDO does not reach across stages.

    Raises:
        ValueError: there is no such observation, league or render mode.
    """

    # gymnasium declares it so, and no `ClassVar` may take its place.
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
        self.action_space = actions_of()
        self.render_mode = render_mode
        self._game = HackMatrixGame(GameConfig.of_league(league))
        self._observation = observation
        self._state: State | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Starts a game. The seed determines all of its random numbers."""
        super().reset(seed=seed)
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._steps = 0
        self._state, mask = _start(self._game, self._key)
        return self._look(), self._info(mask, won=False)

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Plays one action; an episode is truncated only by gymnasium's own `max_episode_steps`."""
        before = self._begun()
        self._steps += 1
        self._state, mask, reward, over, won = _step(
            self._game, before, jnp.int32(action), self._key, jnp.int32(self._steps)
        )
        return self._look(), float(reward), bool(over), False, self._info(mask, won=bool(won))

    def action_masks(self) -> np.ndarray:
        """The legal actions, by the name that MaskablePPO of sb3-contrib looks for."""
        return np.asarray(_legal(self._game, self._begun()))

    def render(self) -> Any:
        """The position: a text of 19 lines, or an RGB picture; `None` without a render mode."""
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
def _start(game: HackMatrixGame, key: Key[Array, ""]) -> tuple[State, Bool[Array, " actions"]]:
    state = game.start(key=key)
    return state, game.legal(state)


@jax.jit
def _step(
    game: HackMatrixGame,
    state: State,
    action: Int32[Array, ""],
    key: Key[Array, ""],
    number: Int32[Array, ""],
) -> tuple[State, Bool[Array, " actions"], Array, Array, Array]:
    key = jax.random.fold_in(key, number)
    after, outcome = play(game.config, state, action, key=key)
    over = ~outcome.legal | outcome.died | outcome.won
    return after, game.legal(after), outcome.terms.total(), over, outcome.won


_legal = jax.jit(lambda game, state: game.legal(state))
_observe = jax.jit(lambda game, state: game.observe(state))
