"""CartPole."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.env._environment import (
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Timestep,
    check_max_steps,
)
from hackmatrix_rl.env._spaces import Discrete
from hackmatrix_rl.system.errors import check_actions

GRAVITY = 9.8
CART_MASS = 1.0
POLE_MASS = 0.1
TOTAL_MASS = CART_MASS + POLE_MASS
HALF_LENGTH = 0.5
PUSH = 10.0
SECONDS_PER_STEP = 0.02
MAX_ANGLE = 12 * 2 * np.pi / 360
MAX_POSITION = 2.4


class CartPoleState(eqx.Module):
    """The state of a batch of carts."""

    physics: Float32[Array, "num_envs 4"]
    length: Int32[Array, " num_envs"]


class CartPole(Environment):
    """A cart with a pole on it. The actions push the cart left (0) or right (1).

    The reward of each step is 1. An episode terminates when the pole leans more than 12 degrees
    or the cart leaves the track. It is truncated after `max_steps`, the best return.

    Source: Barto, Sutton and Anderson 1983, with the constants of Gym's CartPole-v1.

    Attributes:
        max_steps: number of steps after which an episode is truncated.
    """

    max_steps: int = eqx.field(static=True, default=500)
    truncates = True  #: `max_steps` is always set.

    def __check_init__(self) -> None:
        check_max_steps(self.max_steps)

    @property
    def spec(self) -> EnvSpec:
        """Four float32 numbers and two actions."""
        return EnvSpec(Discrete(2), observation=jax.ShapeDtypeStruct((4,), jnp.float32))

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[CartPoleState, Timestep]:
        """Starts each cart with the pole nearly upright."""
        num_envs = keys.shape[0]
        state = CartPoleState(physics=_start(keys), length=jnp.zeros((num_envs,), jnp.int32))
        never = jnp.zeros((num_envs,), bool)
        return state, _timestep(state, state, jnp.zeros((num_envs,), jnp.float32), never, never)

    def step(
        self,
        state: CartPoleState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[CartPoleState, Timestep]:
        """Pushes each cart for 0.02 seconds: right for action 1, left for any other number."""
        check_actions(actions, keys)
        after = CartPoleState(
            physics=_move(state.physics, jnp.where(actions == 1, PUSH, -PUSH)),
            length=state.length + 1,
        )
        position, angle = after.physics[:, 0], after.physics[:, 2]
        terminated = (jnp.abs(position) > MAX_POSITION) | (jnp.abs(angle) > MAX_ANGLE)
        truncated = ~terminated & (after.length >= self.max_steps)
        done = terminated | truncated
        shown = CartPoleState(
            physics=jnp.where(done[:, None], _start(keys), after.physics),
            length=jnp.where(done, 0, after.length),
        )
        reward = jnp.ones_like(position)
        return shown, _timestep(shown, after, reward, terminated, truncated)

    def render(self, state: CartPoleState, game: int = 0) -> str:
        """The track, the cart, and the pole above it."""
        position, _, angle, _ = np.asarray(state.physics[game]).tolist()
        middle = len(_TRACK) // 2
        cart = middle + round(position / MAX_POSITION * (middle - 1))
        lean = math.tan(angle) * _LEAN
        rows = []
        for height in range(_POLE, 0, -1):
            row = [" "] * len(_TRACK)
            column = cart + round(lean * height / _POLE)
            row[min(max(column, 0), len(row) - 1)] = "|" if abs(lean) < 1 else "/\\"[lean < 0]
            rows.append("".join(row))
        track = _TRACK[: max(cart - 1, 0)] + "[o]" + _TRACK[cart + 2 :]
        return "\n".join([*rows, track])


_TRACK = f"|{'_' * 59}|"
_POLE, _LEAN = 5, 30  # rows of the pole, and columns for an angle of 45 degrees


def _start(keys: Key[Array, " num_envs"]) -> Float32[Array, "num_envs 4"]:
    return jax.vmap(lambda key: jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05))(keys)


def _move(
    physics: Float32[Array, "num_envs 4"], force: Float32[Array, " num_envs"]
) -> Float32[Array, "num_envs 4"]:
    """One step of Euler's method."""
    _, speed, angle, angular_speed = physics.T
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    pole = POLE_MASS * HALF_LENGTH
    drive = (force + pole * angular_speed**2 * sin) / TOTAL_MASS
    angular_acceleration = (GRAVITY * sin - cos * drive) / (
        HALF_LENGTH * (4 / 3 - POLE_MASS * cos**2 / TOTAL_MASS)
    )
    acceleration = drive - pole * angular_acceleration * cos / TOTAL_MASS
    changes = jnp.stack([speed, acceleration, angular_speed, angular_acceleration], axis=-1)
    return physics + SECONDS_PER_STEP * changes


def _timestep(
    shown: CartPoleState,
    before_reset: CartPoleState,
    reward: Float32[Array, " num_envs"],
    terminated: Bool[Array, " num_envs"],
    truncated: Bool[Array, " num_envs"],
) -> Timestep:
    everything = jnp.ones((reward.shape[0], 2), bool)
    return Timestep(
        observation=shown.physics,
        mask=everything,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        last_observation=before_reset.physics,
        last_mask=everything,
        terms={},
        episode=EpisodeStatistics(
            total_reward=before_reset.length.astype(jnp.float32), length=before_reset.length
        ),
    )
