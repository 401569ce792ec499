"""A game of this package with the API of gymnax. Imported by `to_gymnax`."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import environment, spaces
from jaxtyping import Array, Bool, Float32, Key

from hackmatrix_rl.env import SingleGame


@struct.dataclass
class FaceState(environment.EnvState):
    """The state of one game, and the number of steps in this episode."""

    game: Any
    time: Any


@struct.dataclass
class FaceParams(environment.EnvParams):
    """The number of steps after which an episode is truncated."""

    max_steps_in_episode: Any = 1000


class GymnaxFace(environment.Environment[FaceState, FaceParams]):
    """A `SingleGame` with the API of gymnax 1.0. Observations are vectors of features.

    `info["action_mask"]` and `action_mask(state)` hold the legal actions.
    """

    def __init__(self, game: SingleGame[Any]) -> None:
        super().__init__()
        self.game = game

    @property
    def default_params(self) -> FaceParams:
        """A step limit of 1,000."""
        return FaceParams()

    @property
    def name(self) -> str:
        return type(self.game).__name__

    @property
    def num_actions(self) -> int:
        """The number of actions of the game."""
        return self.game.num_actions

    def reset_env(self, key: Key[Array, ""], params: FaceParams) -> tuple[Array, FaceState]:
        state = FaceState(game=self.game.start(key=key), time=jnp.int32(0))
        return self.get_obs(state), state

    def step_env(
        self, key: Key[Array, ""], state: FaceState, action: Any, params: FaceParams
    ) -> tuple[Array, FaceState, Array, Array, dict[Any, Any]]:
        """Plays one action; gymnax resets and truncates."""
        played = self.game.play(state.game, jnp.asarray(action, jnp.int32), key=key)
        after = FaceState(game=played.state, time=state.time + 1)
        over = jnp.asarray(played.terminated)
        info = {"discount": jnp.where(over, 0.0, 1.0), "action_mask": self.action_mask(after)}
        seen, after = jax.lax.stop_gradient((self.get_obs(after), after))
        return seen, after, jnp.asarray(played.reward, jnp.float32), over, info

    def get_obs(
        self, state: FaceState, params: Any = None, key: Any = None
    ) -> Float32[Array, " features"]:
        return self.game.encode(self.game.observe(state.game)).ravel()

    def action_mask(self, state: FaceState) -> Bool[Array, " num_actions"]:
        return self.game.legal(state.game)

    def action_space(self, params: FaceParams | None = None) -> Any:
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: FaceParams | None = None) -> Any:
        """The vectors of features."""
        size = jax.eval_shape(self.reset_env, jax.random.key(0), FaceParams())[0].shape
        return spaces.Box(-jnp.inf, jnp.inf, size, jnp.float32)
