"""How likely a victory is at the start of a stage."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from hackmatrix_rl.game import LAST_STAGE, GameConfig, Position, Program
from hackmatrix_rl.search._evaluation import owns, walks_by_undo
from hackmatrix_rl.search._weights import WinWeights

STARTED, UNFINISHED = 0.97, 0.85
"""With UNDO ready, which walks to victory: at the start of a stage, and within one."""
_MOST_RESOURCES, _MOST_SIPHONS, _MOST_ATTACK = 15, 3, 3


def win_probability(
    config: GameConfig, position: Position, weights: WinWeights, *, started: Bool[Array, ""]
) -> Float32[Array, ""]:
    """How likely the player is to win the game: a logistic function of what it has.

    Args:
        config: sizes and league of the game.
        position: one position; a stage that has been completed and is not set up yet is best.
        weights: log-odds.
        started: whether a stage has just been completed.
    """
    player = position.player
    stages = jnp.stack([weights[f"stage_{stage}"] for stage in range(1, LAST_STAGE + 1)])

    def real(number: Array) -> Float32[Array, ""]:
        return number.astype(jnp.float32)

    def owned(program: Program) -> Float32[Array, ""]:
        return real(owns(position, program))

    odds = (
        stages[position.stage - 1]
        + weights["hp"] * (real(player.hp) - 2.5)
        + weights["credits"] * real(jnp.minimum(player.credits, _MOST_RESOURCES)) / 5
        + weights["energy"] * real(jnp.minimum(player.energy, _MOST_RESOURCES)) / 5
        + weights["siphons"] * real(jnp.minimum(player.data_siphons, _MOST_SIPHONS))
        + weights["attack"] * real(jnp.minimum(player.attack_damage - 1, _MOST_ATTACK))
        + weights["crowd"] * real(position.enemies.count + position.transmissions.count)
        + weights["RESET"] * owned(Program.RESET)
        + weights["CRASH"] * owned(Program.CRASH)
        + weights["ROW_or_COL"] * (owned(Program.ROW) + owned(Program.COL))
        + weights["UNDO"] * owned(Program.UNDO)
    )
    by_undo = jnp.where(started, STARTED, UNFINISHED)
    chance: Array = jnp.where(walks_by_undo(config, position), by_undo, jax.nn.sigmoid(odds))
    return jnp.where(player.hp <= 0, 0.0, chance)
