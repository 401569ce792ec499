"""A position as plain Python objects, for drawing."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from hackmatrix_rl.games.hackmatrix import (
    ENEMY_SPEED,
    NUM_CELLS,
    SIZE,
    STEPS,
    Content,
    Direction,
    EnemyType,
    Program,
)

DATA = (Content.DATA, Content.HIDDEN_DATA)
PROGRAMS = (Content.PROGRAM, Content.HIDDEN_PROGRAM)
"""Contents of data blocks and of program blocks, known and hidden."""


@dataclass(frozen=True)
class Cell:
    """One cell."""

    content: Content
    points: int  #: Points of a data block, else 0.
    program: Program | None  #: The program of a program block, else `None`.
    spawn_count: int  #: Transmissions that siphoning the block calls.
    credits: int  #: 0..3. Blocks cover credits and energy, but do not remove them.
    energy: int
    siphoned: bool  #: Whether a siphon has reached the cell.
    siphon_center: bool  #: Whether the player has siphoned from here.
    #: Whether the numbers above are known: false for a question block in `Frame.seen`.
    known: bool = True

    @property
    def is_block(self) -> bool:
        """Whether it holds a block, known or hidden."""
        return self.content in DATA or self.content in PROGRAMS

    @property
    def is_question(self) -> bool:
        """Whether it holds a question block, whose contents the player does not know."""
        return self.content in (Content.HIDDEN_DATA, Content.HIDDEN_PROGRAM)


@dataclass(frozen=True)
class Enemy:
    """One enemy."""

    type: EnemyType
    cell: int
    hp: int
    disabled_turns: int  #: Turns until it may move.
    stunned: bool  #: Whether it skips the next turn.
    last_known: int | None  #: The cell where the player last saw a cryptog, else `None`.
    from_scheduled_task: bool  #: Whether a scheduled task brought it.
    spawned_from_siphon: bool  #: Whether a siphon brought it.
    visible: bool  #: Whether the player sees it.


@dataclass(frozen=True)
class Transmission:
    """A transmission: an enemy that will spawn. `type` is `None` if unknown."""

    type: EnemyType | None
    cell: int
    turns_remaining: int  #: Turns until it appears; 1 is the next enemy turn.
    from_scheduled_task: bool
    spawned_from_siphon: bool
    type_visible: bool  #: Whether the player sees its type.
    visible: bool  #: Whether the player sees it; false behind another transmission.


@dataclass(frozen=True)
class Shot:
    """The effect of a move in one direction."""

    direction: Direction
    #: The cells on its line of sight, nearest first; the last one is the target, if any.
    cells: tuple[int, ...]
    hits: str | None  #: `"enemy"` or `"transmission"`, or `None` for no target.

    @property
    def target(self) -> int | None:
        """The cell that is hit, if any."""
        return self.cells[-1] if self.hits else None


@dataclass(frozen=True)
class SiphonYield:
    """The yield of a siphon at one cell."""

    cells: tuple[int, ...]  #: The cells of the cross that are not siphoned yet.
    points: int  #: Score from the data blocks.
    #: Programs that the player does not own yet, in the order of the cells.
    programs: tuple[Program, ...]
    credits: int  #: From cells without a block, like `energy`.
    energy: int
    spawns: int  #: Transmissions that it calls.
    #: Number of blocks whose contents the player does not know; they add nothing above.
    unknown: int


@dataclass(frozen=True)
class Frame:
    """One position for drawing. Cell = row * 6 + col; row 0 is at the bottom.

    `frame_of` returns the full state; `seen` removes what the player does not see.
    """

    cells: tuple[Cell, ...]
    enemies: tuple[Enemy, ...]  #: In order of arrival, as are the transmissions.
    transmissions: tuple[Transmission, ...]
    player_cell: int
    hp: int
    credits: int
    energy: int
    data_siphons: int
    score: int
    attack_damage: int  #: Hp that an attack takes.
    owned: tuple[Program, ...]  #: The programs, in the order of their actions.
    stage: int
    turn: int  #: Turns played in this stage.
    exit_cell: int
    show_activated: bool  #: Whether SHOW is active.
    scheduled_tasks_disabled: bool  #: Whether CALM is active.
    step_active: bool  #: Whether STEP skips the next enemy turn.
    next_scheduled_task_turn: int
    snapshots: int  #: Number of turns that UNDO can go back.
    #: Where the player last saw the cryptogs that are currently hidden.
    last_known_cells: frozenset[int]
    complete: bool = True  #: Whether hidden things are in the frame: false after `seen`.

    def seen(self) -> "Frame":
        """The frame without what the player does not see (rules, section 10)."""
        return replace(
            self,
            complete=False,
            cells=tuple(_covered(cell) for cell in self.cells),
            enemies=tuple(enemy for enemy in self.enemies if enemy.visible),
            transmissions=tuple(
                each if each.type_visible else replace(each, type=None)
                for each in self.transmissions
                if each.visible
            ),
        )

    @property
    def flags(self) -> dict[str, bool]:
        """Whether SHOW, CALM and STEP are active."""
        off = self.scheduled_tasks_disabled
        return {"SHOW": self.show_activated, "CALM": off, "STEP": self.step_active}

    @cached_property
    def shots(self) -> tuple[Shot, ...]:
        """The target of a move in each direction, from the visible enemies and transmissions."""
        return tuple(self._shot(direction) for direction in Direction)

    @cached_property
    def attackers(self) -> frozenset[int]:
        """Indices of the enemies that hit the player in the next enemy turn.

        This assumes that the player stays and no other enemy moves. Enemies move in random order,
        and may open or block each other's way.
        """
        return frozenset(
            number for number, enemy in enumerate(self.enemies) if self._attacks(enemy)
        )

    @property
    def attacking_cells(self) -> list[int]:
        """The cells of the enemies that hit next."""
        return sorted({self.enemies[number].cell for number in self.attackers})

    def entities_on(self, cell: int) -> list[Enemy | Transmission]:
        """Enemies and transmissions on a cell in order of arrival; visible ones come first."""
        everyone: list[Enemy | Transmission] = [*self.enemies, *self.transmissions]
        return sorted((each for each in everyone if each.cell == cell), key=lambda e: not e.visible)

    def siphon_yield(self) -> SiphonYield:
        """The yield of a siphon at the player's cell."""
        cross = (self.player_cell, *neighbours(self.player_cell))
        cells = tuple(each for each in cross if not self.cells[each].siphoned)
        found = [self.cells[each] for each in cells]
        known = [each for each in found if each.is_block and each.known]
        loose = [each for each in found if not each.is_block]
        programs = [each.program for each in known if each.program is not None]
        return SiphonYield(
            cells=cells,
            points=sum(each.points for each in known),
            programs=tuple(
                program for program in dict.fromkeys(programs) if program not in self.owned
            ),
            credits=sum(each.credits for each in loose),
            energy=sum(each.energy for each in loose),
            spawns=sum(each.spawn_count for each in known),
            unknown=sum(1 for each in found if each.is_block and not each.known),
        )

    def _shot(self, direction: Direction) -> Shot:
        enemies = {enemy.cell for enemy in self.enemies}
        transmissions = {each.cell for each in self.transmissions}
        passed: list[int] = []
        for cell in _ray(self.player_cell, direction):
            if not passed and self.cells[cell].is_block and cell not in enemies:
                break  # a wall next to the player: the move is not legal
            if cell in transmissions:
                return Shot(direction, (*passed, cell), "transmission")
            if cell in enemies:
                return Shot(direction, (*passed, cell), "enemy")
            if self.cells[cell].is_block:
                break
            passed.append(cell)
        return Shot(direction, tuple(passed), None)

    def _attacks(self, enemy: Enemy) -> bool:
        if enemy.stunned or enemy.disabled_turns or self.step_active:
            return False
        cell = enemy.cell
        for _ in range(ENEMY_SPEED[enemy.type]):
            if self.player_cell in neighbours(cell):
                return True
            cell = self._moved(enemy, cell)
        return False

    def _moved(self, enemy: Enemy, cell: int) -> int:
        """The enemy's next cell if nothing else moves (rules, section 5)."""
        walls = {each for each in range(NUM_CELLS) if self.cells[each].is_block}
        if enemy.type == EnemyType.GLITCH:
            walls = set()
        others: tuple[Enemy | Transmission, ...] = (*self.enemies, *self.transmissions)
        taken = {each.cell for each in others if each is not enemy} - {self.player_cell}
        step = _first_step(cell, self.player_cell, walls | taken)
        if step is not None:
            return step
        step = _first_step(cell, self.player_cell, walls)
        if step is not None and step not in taken:
            return step
        free = [each for each in neighbours(cell) if each not in walls | taken]
        row, col = divmod(self.player_cell, SIZE)
        distances = {each: abs(each // SIZE - row) + abs(each % SIZE - col) for each in free}
        return min(free, key=distances.__getitem__, default=cell)


def neighbours(cell: int) -> list[int]:
    """The adjacent cells of a cell, in direction order."""
    return [next_ for direction in Direction for next_ in _ray(cell, direction, most=1)]


def _ray(cell: int, direction: Direction, most: int = SIZE) -> Iterator[int]:
    """The cells from a cell to the edge of the board, excluding the cell."""
    row, col = divmod(cell, SIZE)
    room = (SIZE - 1 - row, row, col, SIZE - 1 - col)[direction]
    return (cell + STEPS[direction] * (number + 1) for number in range(min(room, most)))


def _first_step(start: int, goal: int, blocked: set[int]) -> int | None:
    """The first step of the shortest path, in direction order; `None` without a path."""
    if start == goal or goal in blocked:
        return None
    away = {goal: 0}
    queue = deque([goal])
    while queue:
        cell = queue.popleft()
        for each in neighbours(cell):
            if each not in away and (each not in blocked or each == start):
                away[each] = away[cell] + 1
                queue.append(each)
    if start not in away:
        return None
    nearer = (each for each in neighbours(start) if away.get(each, NUM_CELLS) < away[start])
    return next(nearer, None)


def _covered(cell: Cell) -> Cell:
    """A cell as the player sees it."""
    shown = cell
    if cell.is_question:
        # The kind of a question block is hidden, too.
        hidden = replace(shown, content=Content.HIDDEN_DATA, known=False)
        shown = replace(hidden, points=0, program=None, spawn_count=0)
    if cell.is_block and not cell.siphoned:
        shown = replace(shown, credits=0, energy=0)
    return shown
