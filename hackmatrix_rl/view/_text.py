"""A position as text for terminals: the board, and a panel of the player's numbers."""

import textwrap

import numpy as np
from rich.text import Text

from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    LAST_STAGE,
    MAX_HP,
    SIZE,
    SPECS,
    Action,
    Content,
    Direction,
    Program,
)
from hackmatrix_rl.view._frame import Cell, Enemy, Frame, Transmission
from hackmatrix_rl.view._marks import counted
from hackmatrix_rl.view._names import (
    KEYS,
    STYLES,
    UNICODE,
    Signs,
    fitted,
    letter_of,
    name_of,
    program_name,
    styled,
    why_not,
)

CELL_WIDTH = 7
BOARD_WIDTH = SIZE * (CELL_WIDTH + 1) + 1
BOARD_HEIGHT = SIZE * 3 + 1
_ROW = 17  # key, name and cost of a program
_INDENT = 4
_MORE = 9  # the largest count of further enemies on a cell


def text_of(frame: Frame, *, signs: Signs = UNICODE) -> Text:
    """The board: 19 lines of 49 characters.

    A cell has two lines. The upper one shows actors: `@` the player, `V2` a virus with 2 hp (then
    `!` if it hits next turn, `z` if it does not act, `s` or `t` if a siphon or a scheduled task
    brought it), `◇?1` a transmission with its turns, `+2` two more; and the contents of a block.
    The lower one shows resources (`$2`, `E1`), `[S]` a data siphon, the number of transmissions
    that a block calls after a times sign, and `✓` on a siphoned cell. In a complete frame, what the
    player does not see is in lower case.

    Arrows show the targets of shots, and `+` the yield of a siphon. Outputs without Unicode need
    the signs `ASCII`.
    """
    return _Board(frame, signs).text()


class _Board:
    def __init__(self, frame: Frame, signs: Signs) -> None:
        self.frame, self.signs = frame, signs
        shots = [shot for shot in frame.shots if shot.hits]
        self.targets = {shot.cells[-1]: shot.direction for shot in shots}
        self.rays = {cell: shot.direction for shot in shots for cell in shot.cells[:-1]}
        self.gains = frame.siphon_yield().cells

    def text(self) -> Text:
        lines = self.signs.lines
        found = [self._rule(*lines[2:5])]
        for row in reversed(range(SIZE)):
            cells = range(row * SIZE, (row + 1) * SIZE)
            found += [self._row([self._upper(cell) for cell in cells])]
            found += [self._row([self._lower(cell) for cell in cells])]
            found += [self._rule(*(lines[5:8] if row else lines[8:11]))]
        return Text("\n", no_wrap=True).join(found)

    def _rule(self, left: str, middle: str, right: str) -> Text:
        inner = middle.join([self.signs.lines[0] * CELL_WIDTH] * SIZE)
        return styled(left + inner + right, STYLES["faint"])

    def _row(self, parts: list[Text]) -> Text:
        bar = styled(self.signs.lines[1], STYLES["faint"])
        return bar + bar.join(parts) + bar

    # The upper line of a cell.

    def _upper(self, cell: int) -> Text:
        entities = self.frame.entities_on(cell)
        if entities:
            return self._crowd(cell, entities)
        if cell == self.frame.player_cell:
            return styled("@".center(CELL_WIDTH), STYLES["player"])
        here = self.frame.cells[cell]
        if here.is_block:
            return self._filled(here, name_of(here))
        if (name := self._exit(cell)) is not None:
            return styled(f" {name}  ", STYLES["exit"])
        if cell in self.rays:
            arrow = self.signs.arrows[self.rays[cell]]
            upright = self.rays[cell] in (Direction.UP, Direction.DOWN)
            return styled(
                f"   {arrow}   " if upright else f" {arrow} {arrow} {arrow} ", STYLES["ray"]
            )
        if cell in self.frame.last_known_cells:
            return styled("  C?   ", STYLES["hidden"])
        return styled(" " * CELL_WIDTH)

    def _crowd(self, cell: int, entities: list[Enemy | Transmission]) -> Text:
        """The player or an arrow, the first entity, and the number of further ones."""
        first, *more = entities
        lead = styled(" ")
        if cell == self.frame.player_cell:
            lead = styled("@", STYLES["player"])
        elif cell in self.targets:
            lead = styled(self.signs.arrows[self.targets[cell]], STYLES["aim"])
        return lead + self._token(cell, first) + self._more(cell, more)

    def _token(self, cell: int, entity: Enemy | Transmission) -> Text:
        """Four characters."""
        letter = letter_of(entity)
        if isinstance(entity, Transmission):
            turns = str(entity.turns_remaining) if entity.turns_remaining <= 99 else "++"
            return styled(f"{self.signs.transmission}{letter}{turns:2}", STYLES["transmission"])
        if not entity.visible:
            return styled(f"({letter}{entity.hp})", STYLES["hidden"])
        idle = entity.stunned or entity.disabled_turns > 0
        attacks = cell in self.frame.attacking_cells
        style = "attacker" if attacks else "idle" if idle else "enemy"
        state = "!" if attacks else "z" if idle else " "
        origin = "s" if entity.spawned_from_siphon else "t" if entity.from_scheduled_task else " "
        found = styled(f"{letter}{entity.hp}{state}", STYLES[style])
        return found + styled(origin, STYLES["enemy"])

    def _more(self, cell: int, others: list[Enemy | Transmission]) -> Text:
        """Two characters."""
        if not others:
            known = cell in self.frame.last_known_cells
            return styled("C?" if known else "  ", STYLES["hidden"])
        if len(others) > 1:
            return styled(f"+{len(others) if len(others) <= _MORE else '*'}", STYLES["enemy"])
        (other,) = others
        if isinstance(other, Transmission):
            return styled(f"+{self.signs.transmission}", STYLES["transmission"])
        return styled(f"+{letter_of(other)}", STYLES["enemy"])

    # The lower line of a cell.

    def _lower(self, cell: int) -> Text:
        here = self.frame.cells[cell]
        if here.is_block:
            return self._block(cell)
        if (name := self._exit(cell)) is not None and self._is_taken(cell):
            return styled(f" {name} ", STYLES["exit"]) + self._mark(here)
        found = styled("+" if self._would_gain(cell) else " ", STYLES["gain"])
        found += self._resource(here)
        found += styled("[S]" if here.content == Content.PICKUP else "   ", STYLES["pickup"])
        return found + self._mark(here)

    def _block(self, cell: int) -> Text:
        here = self.frame.cells[cell]
        calls = f"{self.signs.times}{here.spawn_count}" if here.known and here.spawn_count else ""
        if self._is_taken(cell):  # the upper line shows who stands on it
            name, tail = name_of(here), self.signs.siphoned if here.siphoned else calls
            return self._filled(here, name + tail if len(name + tail) <= CELL_WIDTH else name)
        fill = self.signs.taken if here.siphoned else self.signs.block
        gain = styled("+", STYLES["gain"]) if self._would_gain(cell) else styled(fill)
        under = styled(fill * 4)
        if here.credits or here.energy:
            letter = self._resource(here)
            hidden = not here.siphoned
            under = styled("(") + letter + styled(")") if hidden else letter + styled(fill * 2)
        end = styled(calls or (self.signs.siphoned if here.siphoned else fill), STYLES["title"])
        return gain + under + styled(fill * (2 - end.cell_len)) + end

    def _filled(self, here: Cell, name: str) -> Text:
        fill = self.signs.taken if here.siphoned else self.signs.block
        kind = "question" if here.is_question else "data" if here.program is None else "program"
        left = (CELL_WIDTH - len(name)) // 2
        right = CELL_WIDTH - len(name) - left
        return styled(fill * left) + styled(name, STYLES[kind]) + styled(fill * right)

    def _resource(self, here: Cell) -> Text:
        """Two characters."""
        if here.credits:
            return styled(f"${here.credits}", STYLES["credits"])
        return styled(f"E{here.energy}" if here.energy else "  ", STYLES["energy"])

    def _mark(self, here: Cell) -> Text:
        sign = self.signs.center if here.siphon_center else self.signs.siphoned
        return styled(sign if here.siphoned or here.siphon_center else " ", STYLES["faint"])

    def _exit(self, cell: int) -> str | None:
        """EXIT on the board, exit at the cell of the stage; after UNDO these may differ."""
        if self.frame.cells[cell].content == Content.EXIT:
            return "EXIT"
        return "exit" if cell == self.frame.exit_cell else None

    def _is_taken(self, cell: int) -> bool:
        return cell == self.frame.player_cell or bool(self.frame.entities_on(cell))

    def _would_gain(self, cell: int) -> bool:
        here = self.frame.cells[cell]
        return cell in self.gains and bool(here.is_block or here.credits or here.energy)


def prospects(frame: Frame) -> tuple[Text, Text]:
    """Two lines: the threat of the next enemy turn, and the yield of a siphon."""
    return _threat(frame), _yield(frame)


def _threat(frame: Frame) -> Text:
    attackers = [frame.enemies[number] for number in sorted(frame.attackers)]
    names = [f"{letter_of(each)}{each.hp}" for each in attackers]
    if frame.step_active:
        return styled("Next turn is skipped (STEP).")
    if not names:
        return styled("Nobody in sight hits you in the next turn.")
    after = max(0, frame.hp - len(names))
    said = f"! {len(names)} may hit you next turn ({', '.join(names)}): hp {frame.hp} to {after}"
    return styled(said + (", that is death." if not after else "."), STYLES["aim"])


def _yield(frame: Frame) -> Text:
    found = frame.siphon_yield()
    parts = [f"{found.points} points"] if found.points else []
    parts += [program_name(program) for program in found.programs]
    parts += [f"${found.credits}"] if found.credits else []
    parts += [f"E{found.energy}"] if found.energy else []
    parts += [f"{found.unknown} unknown"] if found.unknown else []
    said = f"A siphon here takes {', '.join(parts) or 'nothing'}"
    if found.spawns:
        said += f" and calls {found.spawns} transmission{'s' if found.spawns > 1 else ''}"
    return styled(f"{said}.", STYLES["gain"] if frame.data_siphons and parts else "")


def panel_of(
    frame: Frame,
    mask: np.ndarray | None = None,
    *,
    width: int = 30,
    height: int = 19,
    signs: Signs = UNICODE,
) -> Text:
    """The player's numbers, the flags, and the owned programs: `height` lines of `width`.

    A program has a key, a name and a cost. If it is illegal, its key is in parentheses, and the
    reason follows on the same line or below, if there is room.
    """
    lines = _numbers(frame, width, signs)
    lines += _programs(frame, mask, width, height - len(lines))
    lines += [styled("")] * (height - len(lines))
    rows = [fitted(line, width, signs) for line in lines[:height]]
    return Text("\n", no_wrap=True).join(rows)


def _numbers(frame: Frame, width: int, signs: Signs) -> list[Text]:
    half = min(width // 2, 20)

    def pair(left: str, right: str, left_style: str = "", right_style: str = "") -> Text:
        first = fitted(styled(left, left_style), half - 1, signs) + styled(" ")
        return first + fitted(styled(right, right_style), width - half, signs)

    hearts = signs.hp[0] * frame.hp + signs.hp[1] * (MAX_HP - frame.hp)
    credits, energy = f"credits ${_short(frame.credits)}", f"energy E{_short(frame.energy)}"
    task = max(1, frame.next_scheduled_task_turn - frame.turn)
    undo = f"undo: {counted(frame.snapshots, 'turn')}" if Program.UNDO in frame.owned else ""
    active = [name for name, is_on in frame.flags.items() if is_on]
    low = STYLES["aim"] if frame.hp <= 1 else STYLES["title"]
    return [
        pair(f"hp {frame.hp} {hearts}", f"attack {_short(frame.attack_damage)}", low),
        pair(f"stage {frame.stage} of {LAST_STAGE}", f"turn {_short(frame.turn)}"),
        pair(f"score {_short(frame.score)}", f"siphons {_short(frame.data_siphons)}"),
        pair(credits, energy, STYLES["credits"], STYLES["energy"]),
        pair("no tasks" if frame.scheduled_tasks_disabled else f"task in {_short(task)}", undo),
        styled(f"active: {' '.join(active)}" if active else "", STYLES["title"]),
    ]


def _short(number: int) -> str:
    """At most 5 characters."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= size:
            return f"{number // (1000 if letter == 'k' else size)}{letter}"
    return str(number)


def _programs(frame: Frame, mask: np.ndarray | None, width: int, room: int) -> list[Text]:
    """The owned programs, with as much detail as fits."""
    title = styled("programs", STYLES["title"])
    if not frame.owned:
        return [title, styled("none: siphon a block", STYLES["faint"])]
    rows = [
        (program, None if mask is None else why_not(frame, mask, FIRST_PROGRAM + program))
        for program in frame.owned
    ]
    detailed = [line for program, why in rows for line in _detailed(program, why, width)]
    if len(detailed) < room:
        return [title, *detailed]
    if len(rows) < room:
        return [title, *(_line(program, why, width) for program, why in rows)]
    short = [_entry(program, why is None) for program, why in rows]
    half = -(-len(short) // 2)
    pairs = zip(short[:half], [*short[half:], styled("")], strict=False)
    return [title, *(fitted(left, width // 2) + right for left, right in pairs)]


def _entry(program: Program, usable: bool) -> Text:
    """Key and name, in 13 characters."""
    key = KEYS[Action(FIRST_PROGRAM + program)]
    name = f"{program_name(program):6}"
    if usable:
        return styled(f" {key}  ") + styled(name, STYLES["title"])
    return styled(f"({key}) {name}", STYLES["faint"])


def cost_of(program: Program) -> str:
    """The cost of a program: `$2 E1`."""
    spec = SPECS[program]
    parts = [f"${spec.credits}"] if spec.credits else []
    return " ".join(parts + ([f"E{spec.energy}"] if spec.energy else []))


def _costed(program: Program, why: str | None) -> Text:
    style = "" if why is None else STYLES["faint"]
    return _entry(program, why is None) + styled(f" {cost_of(program):5} ", style)


def _line(program: Program, why: str | None, width: int) -> Text:
    said = SPECS[program].does if why is None and width >= 50 else why or ""
    return fitted(_costed(program, why) + styled(said, STYLES["faint"]), width)


def _detailed(program: Program, why: str | None, width: int) -> list[Text]:
    """The program, and why it is illegal: on the same line if it fits, else below."""
    if why is None or _ROW + len(why) <= width:
        return [_line(program, why, width)]
    said = textwrap.wrap(why, width - _INDENT)
    lines = [styled(" " * _INDENT + line, STYLES["faint"]) for line in said]
    return [_costed(program, why), *lines]
