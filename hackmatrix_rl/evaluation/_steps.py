"""One game in any environment, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.env import Environment, Timestep, env_keys
from hackmatrix_rl.evaluation._episodes import start_key, step_keys
from hackmatrix_rl.evaluation._player import Agent, acting, read_by


@dataclass(frozen=True)
class Step:
    """A position, and what a player did there."""

    state: PyTree[Array]  #: The state of the environment, a batch of one game.
    action: int  #: The action that the player took.
    reward: float  #: Its reward.
    end: str  #: `terminated` or `truncated` if it ended the episode; else empty.


def play_steps(
    player: Agent,
    environment: Environment,
    key: Key[Array, ""],
    *,
    game: int = 0,
    max_steps: int = 20_000,
) -> Iterator[Step]:
    """Plays the game with this number that `evaluate` plays with this key; yields each step."""
    keys = env_keys(key, 1, first=game)
    state, timestep = environment.reset(jax.vmap(start_key)(keys))
    carry = jax.tree.map(lambda leaf: leaf[None], player.initial_carry())
    for number in range(max_steps):
        before = state
        state, timestep, carry, action = _step(
            player,
            environment,
            state,
            timestep,
            carry,
            jax.vmap(step_keys, (0, None))(keys, number),
        )
        ends = {"terminated": timestep.terminated, "truncated": timestep.truncated}
        end = next((name for name, flag in ends.items() if bool(flag[0])), "")
        yield Step(before, int(action[0]), float(timestep.reward[0]), end)
        if end:
            return


@eqx.filter_jit
def _step(
    player: Agent,
    environment: Environment,
    state: PyTree[Array],
    timestep: Timestep,
    carry: PyTree[Array],
    keys: tuple[Key[Array, " one"], Key[Array, " one"]],
) -> tuple[PyTree[Array], Timestep, PyTree[Array], Int32[Array, " one"]]:
    """One step of a batch of one game."""
    read = read_by(player, timestep.observation, lambda: state.games)
    action, carry = jax.vmap(acting(player))(read, timestep.mask, carry, keys[0])
    state, timestep = environment.step(state, action, keys[1])
    return state, timestep, carry, action
