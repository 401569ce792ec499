"""How likely a victory is at the start of a stage."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.game import LAST_STAGE, GameConfig, Position, Program
from hackmatrix_rl.search._evaluation import walks_by_undo
from hackmatrix_rl.search._weights import WinWeights

STARTED, UNFINISHED = 0.97, 0.85
"""With UNDO ready, which walks to victory: at the start of a stage, and within one."""
_MOST_RESOURCES, _MOST_SIPHONS, _MOST_ATTACK = 15, 3, 3


def win_probability(
    config: GameConfig, position: Position, weights: WinWeights, *, started: Bool[Array, ""]
) -> Float32[Array, ""]:
    """The win probability: a logistic function of the player's resources.

    Args:
        config: sizes and league of the game.
        position: one position; a stage that has been completed and is not set up yet is best.
        weights: log-odds.
        started: whether a stage has just been completed.
    """
    player = position.player
    terms = win_terms(
        stage=position.stage,
        hp=player.hp,
        credits=player.credits,
        energy=player.energy,
        data_siphons=player.data_siphons,
        attack_damage=player.attack_damage,
        crowd=position.enemies.count + position.transmissions.count,
        programs=position.programs,
    )
    by_undo = jnp.where(started, STARTED, UNFINISHED)
    odds = jnp.sum(terms * weights.numbers)
    chance: Array = jnp.where(walks_by_undo(config, position), by_undo, jax.nn.sigmoid(odds))
    return jnp.where(player.hp <= 0, 0.0, chance)


def win_terms(
    *,
    stage: Int32[Array, "*batch"],
    hp: Int32[Array, "*batch"],
    credits: Int32[Array, "*batch"],
    energy: Int32[Array, "*batch"],
    data_siphons: Int32[Array, "*batch"],
    attack_damage: Int32[Array, "*batch"],
    crowd: Int32[Array, "*batch"],
    programs: UInt32[Array, "*batch"],
) -> Float32[Array, "*batch rows"]:
    """The inputs of `WinWeights`, in the order of its rows.

    Args:
        stage: 1 to 8.
        hp: of the player.
        credits: likewise.
        energy: likewise.
        data_siphons: likewise.
        attack_damage: likewise.
        crowd: the enemies and transmissions that come along from the stage before.
        programs: owned ones, one bit each.
    """

    def real(number: Array) -> Array:
        return jnp.asarray(number).astype(jnp.float32)

    def owned(program: Program) -> Array:
        return real((jnp.asarray(programs) >> np.uint32(program)) & np.uint32(1))

    rows = [
        *(real(stage == each) for each in range(1, LAST_STAGE + 1)),
        real(hp) - 2.5,
        real(jnp.minimum(credits, _MOST_RESOURCES)) / 5,
        real(jnp.minimum(energy, _MOST_RESOURCES)) / 5,
        real(jnp.minimum(data_siphons, _MOST_SIPHONS)),
        real(jnp.minimum(attack_damage - 1, _MOST_ATTACK)),
        real(crowd),
        owned(Program.RESET),
        owned(Program.CRASH),
        owned(Program.ROW) + owned(Program.COL),
        owned(Program.UNDO),
    ]
    return jnp.stack(rows, axis=-1)
