"""The features of HackMatrix's actions: cells of directions and siphon, numbers of programs."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.batching import bits_of
from hackmatrix_rl.env._action_features import ActionFeatures
from hackmatrix_rl.env._observation import CompactObservation, Number
from hackmatrix_rl.game import NUM_PROGRAMS, SIZE, SPECS, Program


def action_cells(seen: CompactObservation) -> Int32[Array, "5"]:
    """The neighbouring cell of each direction, and the player's own cell for siphon."""
    row, col = seen.numbers[Number.ROW], seen.numbers[Number.COL]
    rows = row + np.array([1, -1, 0, 0, 0], np.int32)
    cols = col + np.array([0, 0, -1, 1, 0], np.int32)
    on_board = (rows >= 0) & (rows < SIZE) & (cols >= 0) & (cols < SIZE)
    return jnp.where(on_board, rows * SIZE + cols, -1)


_CREDITS = np.array([SPECS[program].credits for program in Program], np.int32)
_ENERGY = np.array([SPECS[program].energy for program in Program], np.int32)
_COSTS = np.stack([_CREDITS, _ENERGY], axis=-1).astype(np.float32) / 5


def affordable(seen: CompactObservation) -> Bool[Array, " num_programs"]:
    """Whether the player can pay for each program, owned or not."""
    credits_, energy = seen.numbers[Number.CREDITS], seen.numbers[Number.ENERGY]
    return (credits_ >= _CREDITS) & (energy >= _ENERGY)


def program_numbers(
    seen: CompactObservation, *further: Bool[Array, " num_programs"]
) -> Float32[Array, "num_programs numbers"]:
    """Of each program: owned, affordable, what `further` says, and its costs."""
    flags = [bits_of(seen.programs, NUM_PROGRAMS), affordable(seen), *further]
    known = jnp.stack(flags, axis=-1).astype(jnp.float32)
    return jnp.concatenate([known, _COSTS], axis=-1)


COMPACT_ACTIONS = ActionFeatures(cells=action_cells, numbers=program_numbers)
"""The actions as the compact observation shows them."""
