"""Text screens: the rules, and the end of a game with the table of scores."""

import fcntl
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.text import Text
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from hackmatrix_rl.games.hackmatrix import (
    ENEMY_HP,
    ENEMY_SPEED,
    FIRST_PROGRAM,
    SPECS,
    Action,
    EnemyType,
)
from hackmatrix_rl.system import open_in_place, read_json, set_aside, write_json
from hackmatrix_rl.system.errors import DamagedFileError
from hackmatrix_rl.view._names import KEYS, STYLES, Signs, bar, program_name, styled
from hackmatrix_rl.view._text import cost_of
from hackmatrix_rl.view.replays import Match
from hackmatrix_rl.view.terminal._layout import number

FORMAT = "hackmatrix-scores-1"
MOST = 1000
"""Most games in the file."""


@dataclass(frozen=True)
class Score:
    """A finished game."""

    score: int
    stage: int
    end: str
    moves: int
    total_reward: float  #: The return, with the game's default reward.
    date: str  #: The day: 2026-11-22.
    seed: str  #: The two words of the game's random key as text.
    help: str  #: The player's help: `""`, `"hints"`, or the replay that the game continues.


class ScoreTable:
    """The table of scores in a file, whose folder is created. Concurrent processes may add to it.

    A file that cannot be read is renamed, not overwritten. A file that cannot be written does not
    end the game.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @staticmethod
    def default_file() -> Path:
        """`hackmatrix_rl/scores.json` in the user's data folder (`XDG_DATA_HOME`)."""
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(home) / "hackmatrix_rl" / "scores.json"

    def add(self, score: Score) -> tuple[list[Score], str]:
        """Adds a game. Returns all games, best first, and an error message or `""`."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            place = self._file.with_name(f"{self._file.name}.lock")
            with os.fdopen(open_in_place(place, os.O_WRONLY), "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # released when the process ends
                known, said = self._read()
                # By score, then stage, then fewer moves.
                known.append(score)
                known.sort(key=lambda each: (each.score, each.stage, -each.moves), reverse=True)
                games = [asdict(each) for each in known[:MOST]]
                write_json(self._file, {"format": FORMAT, "games": games})
        except OSError as error:
            why = error.strerror or error
            return [score], f"This game is not in the table of scores: {self._file}: {why}."
        return known[:MOST], said

    def _read(self) -> tuple[list[Score], str]:
        try:
            content = read_json(self._file)
            return ([] if content is None else _games(content)), ""
        except DamagedFileError as error:
            aside = set_aside(self._file)
            return [], f"The table of scores was damaged ({error}); it is now {aside}."


def _games(content: Mapping[str, Any]) -> list[Score]:
    rows = content.get("games")
    if content.get("format") != FORMAT or not isinstance(rows, list):
        raise DamagedFileError(f"is not a table of the format {FORMAT}")
    return [_game(row) for row in rows]


def _game(row: Any) -> Score:
    types = {each.name: each.type for each in fields(Score)}
    if not isinstance(row, dict) or set(row) != set(types):
        raise DamagedFileError("holds a game with other fields")
    for name, kind in types.items():
        if type(row[name]) is not kind and not (kind is float and type(row[name]) is int):
            raise DamagedFileError(f"holds a game whose {name} is no {kind}")
    return Score(**row)


OWN_WIDTH = 78
"""Columns of a line; the screen has 80, including a scroll bar."""

Keys = tuple[tuple[str, str], ...]
"""Keys and their functions."""


def typed(event: Key) -> str:
    """The character of a key, or its name."""
    return event.character if event.character and event.is_printable else event.key


class TextScreen(Screen[str]):
    """A scrollable text and a line of keys. The result is the key in `answers` that closed it."""

    DEFAULT_CSS = """
    TextScreen { align-horizontal: center; }
    TextScreen VerticalScroll {
        width: 80; height: 1fr;
        scrollbar-size-vertical: 1; scrollbar-color: ansi_blue; scrollbar-background: ansi_default;
    }
    TextScreen #text { width: 79; height: auto; }
    TextScreen #keys { width: 80; height: 1; }
    """

    def __init__(self, text: Text, keys: str, answers: tuple[str, ...]) -> None:
        super().__init__()
        self._text, self._keys, self._answers = text, keys, answers

    def compose(self) -> Iterator[Widget]:
        with VerticalScroll():
            yield Static(self._text, id="text")
        yield Static(bar(self._keys, 80), id="keys")

    def on_mount(self) -> None:
        """Gives the focus to the text, which handles the keys that scroll."""
        self.query_one(VerticalScroll).focus()

    def on_key(self, event: Key) -> None:
        """Closes the screen at a key in `answers`."""
        said = typed(event)
        if said in self._answers:
            event.stop()
            self.dismiss(said)


def help_screen(signs: Signs, own_keys: Keys) -> TextScreen:
    """The screen with the keys and the rules."""
    return TextScreen(
        help_text(signs, own_keys),
        " arrows, PgUp, PgDn, End: scroll   ? or Esc: back to the game",
        ("?", "escape", "q", "enter"),
    )


def help_text(signs: Signs, own_keys: Keys) -> Text:
    """The text of `help_screen`, in lines of at most 78 characters."""
    keys = [styled("KEYS", STYLES["title"]), *_rows(own_keys)]
    return Text("\n").join([*keys, *_rules(), *_board(signs), *_enemies(), *_programs()])


def _heading(text: str) -> list[Text]:
    return [styled(""), styled(text, STYLES["title"])]


def _row(key: str, text: str, indent: int = 10) -> list[Text]:
    """A key and its meaning, wrapped."""
    first, later = f"{key:>8}  ", " " * indent
    lines = textwrap.wrap(text, OWN_WIDTH, initial_indent=first, subsequent_indent=later)
    return [styled(line) for line in lines]


def _rows(pairs: Iterable[tuple[str, str]]) -> list[Text]:
    return [line for key, text in pairs for line in _row(key, text)]


def _rules() -> list[Text]:
    said = (
        "Reach the exit of each of 8 stages. Each stage gives back a hit point and",
        "brings more enemies; 0 hp is death. What counts is the score.",
        "An arrow key hits the first enemy or transmission in that direction, at any",
        "distance, unless a block is in between. Nobody there: you step.",
        "A siphon takes your cell and the 4 cells around it: credits, energy, points",
        "of data blocks, programs of program blocks. Each block calls transmissions.",
        "After a move, a siphon or WAIT, the enemies take their turn. Other programs",
        "take no time. A scheduled task brings another enemy now and then.",
    )
    return _heading("RULES") + [styled(f"  {line}") for line in said]


def _board(signs: Signs) -> list[Text]:
    said = (
        ("@", "you"),
        ("V2", "a virus with 2 hp;  ! it may hit you next turn;  z it skips that turn"),
        ("V2s", "a siphon brought it; t: a scheduled task did, and its kill earns nothing"),
        (f"{signs.transmission}?1", "a transmission: an enemy of unknown type appears in 1 turn"),
        ("C?", "a cryptog that you cannot see now was last seen here"),
        ("+2", "two more on this cell"),
        ("CRASH", f"a block with a program; {signs.times}6: siphoning it calls 6 transmissions"),
        ("9 pts", "a data block of 9 points;  ? a block whose content is unknown"),
        ("$2  E1", "2 credits; 1 energy;  + before it: a siphon here would take it"),
        ("[S]", "a data siphon to pick up: step on it"),
        (signs.siphoned, f"siphoned;  {signs.center} you have siphoned from here"),
        (signs.arrows, "the way of a shot; next to an enemy: that arrow key hits it"),
    )
    return _heading("BOARD") + _rows(said)


def _enemies() -> list[Text]:
    notes = {
        EnemyType.GLITCH: "walks over blocks",
        EnemyType.CRYPTOG: "seen only in your row or column, or by SHOW",
    }
    said = (
        (
            kind.name[0],
            f"{kind.name.lower():7} {ENEMY_HP[kind]} hp, {ENEMY_SPEED[kind]} "
            f"cell{'s' if ENEMY_SPEED[kind] > 1 else ''} a turn  {notes.get(kind, '')}",
        )
        for kind in EnemyType
    )
    return _heading("ENEMIES") + _rows(said)


def _programs() -> list[Text]:
    found = _heading("PROGRAMS (key, name, cost)")
    for program, spec in SPECS.items():
        key = KEYS[Action(FIRST_PROGRAM + program)]
        does = f"{spec.does}; needs {spec.needs}" if spec.needs else spec.does
        found += _row(key, f"{program_name(program):6} {cost_of(program):5}  {does}", indent=24)
    return found


def end_screen(
    match: Match, mine: Score, known: list[Score], notes: list[str], signs: Signs
) -> TextScreen:
    """The result of a game and the table of scores, best first, with the row `mine` marked."""
    return TextScreen(
        _result(match, mine, known, notes, signs),
        " N new game   S save replay   Esc look at the board   q quit",
        ("N", "S", "q", "escape"),
    )


def _result(match: Match, mine: Score, known: list[Score], notes: list[str], signs: Signs) -> Text:
    said = {"won": "You have won!", "died": "You died."}.get(mine.end, f"The end: {mine.end}.")
    moves = "1 move" if mine.moves == 1 else f"{mine.moves} moves"
    total = number(match.total_reward, signs)
    lines = [
        styled(""),
        styled(f"  {said}", STYLES["title"]),
        styled(f"  Score {mine.score}, stage {mine.stage}, {moves}, return {total}"),
        styled(""),
        *(styled(f"  {note}", STYLES["aim"]) for note in notes),
        styled("      score  stage  moves   return  end     date        help", STYLES["title"]),
    ]
    place = next((spot for spot, each in enumerate(known) if each is mine), 0)
    for spot, each in enumerate(known):
        if spot < 10 or spot == place:
            lines.append(_score_row(spot, each, each is mine, signs))
    return Text("\n").join(lines)


def _score_row(spot: int, each: Score, mine: bool, signs: Signs) -> Text:
    row = (
        f"{'>' if mine else ' '}{spot + 1:3}. {each.score:5}  {each.stage:5}  {each.moves:5}  "
        f"{number(each.total_reward, signs):>7}  {each.end[:6]:6}  {each.date:10}  {each.help[:16]}"
    )
    return styled(row, STYLES["gain"] if mine else "")
