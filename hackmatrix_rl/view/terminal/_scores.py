"""The best games that people have played on this machine."""

import fcntl
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hackmatrix_rl.errors import DamagedFileError
from hackmatrix_rl.system import read_json, set_aside, write_json

FORMAT = "hackmatrix-scores-1"
MOST = 1000
"""Games that the file keeps."""


@dataclass(frozen=True)
class Score:
    """A finished game."""

    score: int
    stage: int
    end: str
    moves: int
    total_reward: float  #: The game's own return.
    date: str  #: The day, as 2026-11-22.
    seed: str  #: The two words of the game's random key, as text.
    help: str  #: What help the player had: `""`, `"hints"`, or a replay that was taken over.


class ScoreTable:
    """The table of scores in a file, whose folder is made. Several processes may add to it at once.

    A file that cannot be read is renamed, not overwritten. A file that cannot be written stops no
    game.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @staticmethod
    def default_file() -> Path:
        """`hackmatrix_rl/scores.json` in the user's folder for data (`XDG_DATA_HOME`)."""
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(home) / "hackmatrix_rl" / "scores.json"

    def add(self, score: Score) -> tuple[list[Score], str]:
        """Adds a game. Returns all games, the best first, and what went wrong in words, or `""`."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.with_name(f"{self._file.name}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a process that dies gives it back
                known, said = self._read()
                # The better game has the larger key: score, then stage, then fewer moves.
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
