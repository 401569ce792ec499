"""Reconstructs the `tactical` observation of a game from its screens.

The screen lacks what the `tactical` observation adds: the snapshots that UNDO would restore, the
clock of the scheduled tasks, the transmissions that siphons have called, whether STEP is active,
and the uses of ATK+. All of it follows from the actions and the screen after each action.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.env import (
    MOST_SNAPSHOTS,
    CompactObservation,
    Memory,
    Number,
    Sight,
    TacticalObservation,
)
from hackmatrix_rl.games.hackmatrix import (
    FIRST_INTERVAL,
    NUM_DIRECTIONS,
    RESPITE,
    SHORTEST_INTERVAL,
    SIZE,
    SPECS,
    Action,
    Program,
)
from hackmatrix_rl.interop.protocol._records import Record
from hackmatrix_rl.interop.protocol._screen import field_of, seen_of
from hackmatrix_rl.interop.protocol._server import BREAKDOWN
from hackmatrix_rl.system.errors import ConfigError


@dataclass(frozen=True)
class Step:
    """The parsed answer to a `step` request."""

    seen: CompactObservation  #: The screen after the action.
    reward: float
    done: bool  #: Whether the episode has ended.
    legal: bool
    completed: bool  #: Whether a stage was completed.
    died: bool
    terms: dict[str, float]  #: The nonzero reward terms, by their names in this package.

    @staticmethod
    def from_answer(answer: Any) -> "Step":
        """Parses an answer."""
        given = Record(answer, "answer", ("observation", "reward", "done", "info"))
        names = ("invalid_action", "stage_complete", "death", "reward_breakdown")
        info, reward = given.record("info", names), given.real("reward")
        return Step(
            seen=seen_of(answer.get("observation")),
            reward=reward,
            done=given.truth("done"),
            legal=not info.truth("invalid_action"),
            completed=info.truth("stage_complete"),
            died=info.truth("death"),
            terms=_terms(info.record("reward_breakdown", BREAKDOWN), reward),
        )


def _terms(given: Record, reward: float) -> dict[str, float]:
    """The terms of an answer's breakdown, and the step penalty, which the breakdown omits."""
    terms = {term: given.real(name) for name, term in BREAKDOWN.items() if given.has(name)}
    rest = {"step_penalty": round(reward - sum(terms.values()), 4)}
    return {name: term for name, term in (rest | terms).items() if term}


class Snapshot(NamedTuple):
    """The parts of a snapshot for UNDO that a player can know."""

    seen: CompactObservation  #: The screen at the end of its turn.
    attack_uses: int  #: Uses of ATK+ in the stage.
    reductions: int  #: Uses of REDUC since the board was set up.


class Tracker:
    """Follows one game by its screens and returns the tactical observation of each position.

    It is exact for a game from its start. For a game that starts from a given position it assumes
    an empty history and the clock that this package's `setState` sets.

    Args:
        history: most snapshots that the game keeps; `None` for no bound, as in the original.
        rewind_across_stages: whether UNDO reaches across stages; see `GameConfig`.

    Attributes:
        seen: the current screen.
        snapshots: the snapshots for UNDO, newest last.
        interval: turns between scheduled tasks.
        next_task: the turn of the next scheduled task.
        pending: transmissions that siphons have called.
        step_active: whether STEP skips the next enemy turn.
        attack_uses: uses of ATK+ in this stage.
        reductions: uses of REDUC since this board was set up.
    """

    seen: CompactObservation
    interval: int
    next_task: int
    pending: int
    step_active: bool
    attack_uses: int
    reductions: int

    def __init__(self, *, history: int | None = None, rewind_across_stages: bool = True) -> None:
        self._rewind = rewind_across_stages
        self.snapshots: deque[Snapshot] = deque(maxlen=history)

    def begin(self, seen: CompactObservation) -> None:
        """Starts a game with its first screen."""
        self.seen = seen
        self.snapshots.clear()
        self.pending = 0
        self._begin_stage()
        turn = self._number(Number.TURN)
        self.next_task = self.interval if turn < self.interval else turn + self.interval

    def follow(self, action: int, step: Step) -> None:
        """Updates the game with an action and the answer to it.

        Raises:
            ConfigError: the action was UNDO, and there is no snapshot.
        """
        before, self.seen = self.seen, step.seen
        if not step.legal:
            return
        if action == Action.SIPHON:
            self.interval = max(SHORTEST_INTERVAL, self.interval - 1)
            self.next_task += RESPITE
            self.pending += self._called(before)
        self.step_active |= action == Action.STEP
        self.attack_uses += action == Action.ATK_PLUS
        self.reductions += action == Action.REDUC
        if action == Action.UNDO:
            if not self.snapshots:
                where = "" if self._rewind else " in this stage, the first that UNDO reaches here"
                raise ConfigError(f"UNDO was legal, but no turn has ended{where}")
            _, self.attack_uses, self.reductions = self.snapshots.pop()
        if step.completed:
            if not step.done:
                self._begin_stage()
            if not self._rewind:
                self.snapshots.clear()
        elif action < NUM_DIRECTIONS or action in (Action.SIPHON, Action.WAIT):
            self._end_turn()

    def observation(self) -> TacticalObservation:
        """The tactical observation of the current position."""
        memory = np.zeros(len(Memory), np.int32)
        for place, back in ((Memory.NEWEST_HP, 1), (Memory.SECOND_HP, 2)):
            if len(self.snapshots) >= back:
                past = self.snapshots[-back].seen
                memory[place] = _number(past, Number.HP)
                memory[place + 1] = _number(past, Number.CREDITS)
                memory[place + 2] = int(past.programs) >> Program.UNDO & 1
        memory[Memory.SNAPSHOTS] = min(len(self.snapshots), MOST_SNAPSHOTS)
        memory[Memory.TURNS_TO_TASK] = self.next_task - self._number(Number.TURN)
        memory[Memory.TASK_INTERVAL] = self.interval
        memory[Memory.PENDING_TRANSMISSIONS] = self.pending
        memory[Memory.STEP_ACTIVE] = self.step_active
        memory[Memory.ATK_PLUS_USES] = self.attack_uses
        seen = self.seen
        return TacticalObservation(seen.numbers, seen.programs, seen.grid, jnp.asarray(memory))

    def _begin_stage(self) -> None:
        self.interval = self.next_task = FIRST_INTERVAL + 1 - self._number(Number.STAGE)
        self.step_active = False
        self.attack_uses = self.reductions = 0

    def _end_turn(self) -> None:
        """Updates the clock after an action that ends the turn; STEP skips the enemy turn."""
        if self.step_active:
            self.step_active = False
            return
        turn = self._number(Number.TURN)
        calm = self._number(Number.SCHEDULED_TASKS_DISABLED)
        if not calm and turn >= self.next_task:
            self.next_task = turn + self.interval
        self.pending = 0
        self.snapshots.append(Snapshot(self.seen, self.attack_uses, self.reductions))

    def _called(self, before: CompactObservation) -> int:
        """The number of transmissions that a siphon called, from the screens around it."""
        row, col = self._number(Number.ROW), self._number(Number.COL)
        cross = ((row, col), (row + 1, col), (row - 1, col), (row, col - 1), (row, col + 1))
        cells = [r * SIZE + c for r, c in cross if 0 <= r < SIZE and 0 <= c < SIZE]
        sight, siphoned, spawns = (
            field_of(before.grid, name) for name in ("content", "siphoned", "spawn_count")
        )
        shown, values = field_of(self.seen.grid, "content"), field_of(self.seen.grid, "value")
        called = 0
        for cell in cells:
            if siphoned[cell] or not Sight.DATA <= sight[cell] <= Sight.QUESTION:
                continue
            if sight[cell] != Sight.QUESTION:
                called += spawns[cell]
                continue
            # A question block hides its spawn count: the initial count, less one per REDUC.
            data, value = shown[cell] == Sight.DATA, values[cell]
            first = value if data else SPECS[Program(value)].spawn_cost
            called += max(0, first - self.reductions)
        return called

    def _number(self, number: Number) -> int:
        return _number(self.seen, number)


def _number(seen: CompactObservation, number: Number) -> int:
    return int(np.asarray(seen.numbers)[number])
