"""The win probability of a position, by a logistic model for the starts of stages."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.games.hackmatrix import LAST_STAGE, GameConfig, Position, Program
from hackmatrix_rl.search._evaluation import MOST_ATTACK, Value, real, walks_by_undo
from hackmatrix_rl.search._weights import WinWeights

STARTED, UNFINISHED = 0.97, 0.85
"""The win probability while UNDO walks to victory: at the start of a stage, and within one."""
_MOST_OF_EACH, _MOST_SIPHONS = 15, 3


def win_probability(
    config: GameConfig, position: Position, weights: WinWeights, *, started: Bool[Array, ""]
) -> Value:
    """The win probability: a logistic function of the player's resources.

    It is fitted to completed stages before the next one is set up (`started`).
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

    `stage` is 1 to 8, `crowd` is the number of enemies and transmissions that follow from the stage
    before, and `programs` has one bit for each owned program.
    """

    def owned(program: Program) -> Array:
        return real((jnp.asarray(programs) >> np.uint32(program)) & np.uint32(1))

    rows = [
        *(real(stage == each) for each in range(1, LAST_STAGE + 1)),
        real(hp) - 2.5,
        real(jnp.minimum(credits, _MOST_OF_EACH)) / 5,
        real(jnp.minimum(energy, _MOST_OF_EACH)) / 5,
        real(jnp.minimum(data_siphons, _MOST_SIPHONS)),
        real(jnp.minimum(attack_damage - 1, MOST_ATTACK)),
        real(crowd),
        owned(Program.RESET),
        owned(Program.CRASH),
        owned(Program.ROW) + owned(Program.COL),
        owned(Program.UNDO),
    ]
    return jnp.stack(rows, axis=-1)
