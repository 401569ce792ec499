"""States that match what a tracker sees, for players that search.

The hidden parts are a guess; see `seen_position`. A fair player resamples them before it searches.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from hackmatrix_rl.env import CompactObservation, Memory, TacticalObservation, seen_position
from hackmatrix_rl.games.hackmatrix import (
    COLUMNS,
    ENEMY_HP,
    NUM_CELLS,
    SIZE,
    EnemyType,
    GameConfig,
    History,
    State,
    empty_history,
    from_arrays,
    to_arrays,
)
from hackmatrix_rl.interop.protocol._given_state import Arrays
from hackmatrix_rl.interop.protocol._screen import field_of
from hackmatrix_rl.interop.protocol._tracker import Snapshot, Tracker
from hackmatrix_rl.system.errors import refusing

_SNAPSHOTS = COLUMNS["game"].index("snapshots")
_SHORT = GameConfig(history=1)


class Guesses:
    """Builds a `State` from a tracker. `config` has the sizes of the states."""

    def __init__(self, config: GameConfig) -> None:
        self._config = config
        self._rows: dict[int, tuple[Snapshot, UInt32[Array, " words"]]] = {}

    def state(self, tracker: Tracker) -> State:
        """A state that matches the tracker's screen, with the tracker's history."""
        with refusing("the screen shows no position that this package can play: ", ""):
            return self._state(tracker)

    def _state(self, tracker: Tracker) -> State:
        here = from_arrays(self._config, _arrays(tracker.observation(), snapshots=0))
        snapshots = list(tracker.snapshots)[-self._config.history :]
        # Rows are cached by snapshot: each move adds at most one.
        self._rows = {id(each): self._rows.get(id(each)) or self._row(each) for each in snapshots}
        ring = here.history.ring * jnp.uint32(0)
        if snapshots:
            rows = jnp.stack([row for _, row in self._rows.values()])
            ring = ring.at[: len(snapshots)].set(rows)
        count = len(snapshots)
        following = jnp.int32(count % self._config.history)
        return State(here.position, History(ring, following, jnp.int32(count)))

    def _row(self, snapshot: Snapshot) -> tuple[Snapshot, UInt32[Array, " words"]]:
        """A snapshot and its row of the history, which `from_arrays` builds from its position."""
        memory = np.zeros(len(Memory), np.int32)
        memory[Memory.ATK_PLUS_USES] = snapshot.attack_uses
        seen = snapshot.seen
        then = TacticalObservation(seen.numbers, seen.programs, seen.grid, jnp.asarray(memory))
        return snapshot, from_arrays(self._config, _arrays(then, snapshots=1)).history.ring[0]


@jax.jit
def _position(seen: TacticalObservation) -> State:
    position = seen_position(seen)
    return State(position, empty_history(_SHORT, position))


def _arrays(seen: TacticalObservation, *, snapshots: int) -> Arrays:
    """The arrays of a position that matches an observation."""
    arrays = to_arrays(_position(seen))
    arrays["game"][_SNAPSHOTS] = snapshots
    hp = ENEMY_HP[EnemyType.CRYPTOG]
    hidden = [
        [EnemyType.CRYPTOG, *divmod(cell, SIZE), hp, 0, 0, *divmod(hint, SIZE), 0, 0]
        for cell, hint in _cryptogs(seen, arrays)
    ]
    shown = arrays["enemies"][: arrays["num_enemies"]]
    arrays["enemies"] = np.array([*shown, *hidden], np.int32).reshape(-1, shown.shape[1])
    arrays["num_enemies"] = np.array(len(arrays["enemies"]), np.int32)
    return arrays


def _cryptogs(seen: CompactObservation, arrays: Arrays) -> list[tuple[int, int]]:
    """A cell for each hidden cryptog, and where it was last seen: the nearest free hidden cell."""
    row, col = (int(each) for each in arrays["player"][:2])
    taken = [field_of(seen.grid, name) for name in ("enemy", "transmission")]
    blocks = (arrays["cells"][:, 0] >= 1) & (arrays["cells"][:, 0] <= 4)
    free = {
        cell
        for cell in range(NUM_CELLS)
        if cell // SIZE != row
        and cell % SIZE != col
        and not blocks[cell]
        and not any(plane[cell] for plane in taken)
    }
    found = []
    for hint in np.flatnonzero(field_of(seen.grid, "last_known")).tolist():
        if free:
            cell = min(free, key=lambda cell: (_steps(cell, hint), cell))
            free.remove(cell)
            found.append((cell, hint))
    return found


def _steps(one: int, other: int) -> int:
    return abs(one // SIZE - other // SIZE) + abs(one % SIZE - other % SIZE)
