"""A game stored as rules version, seed and actions: a few hundred bytes."""

import hashlib
import string
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix_rl.games.hackmatrix import (
    LAST_STAGE,
    NUM_ACTIONS,
    RULES_VERSION,
    Action,
    GameConfig,
    to_arrays,
)
from hackmatrix_rl.system import read_json, typed_path, write_json
from hackmatrix_rl.system.errors import (
    ConfigError,
    DamagedFileError,
    printable,
    refusing,
    shortened,
)
from hackmatrix_rl.view.replays._match import CUT_OFF, DIED, ILLEGAL, WON, Match, Seed, most_moves

FORMAT = "hackmatrix-replay-1"
LETTERS = "udlrs" + string.ascii_uppercase[: NUM_ACTIONS - 5]
"""One letter per action: the four moves, the siphon, and the programs from A."""
MOST_MOVES = 20_000
_LONGEST_NAME = 200
_LARGEST_RETURN = 10**9


@dataclass(frozen=True)
class Replay:
    """A recorded game that can be reproduced exactly."""

    seed: Seed  #: The two words of the game's random key.
    actions: tuple[Action, ...]
    config: GameConfig = field(default_factory=GameConfig)  #: The sizes of the game.
    max_steps: int | None = None  #: The limit of moves, if there was one.
    player: str = ""  #: The displayed name of the player.
    end: str | None = None  #: How the game ended; `None` if it is unfinished.
    total_reward: float = 0.0  #: The return, with the game's default reward.
    stage: int = 1
    score: int = 0
    check: str = ""  #: A hash of the last position, which detects a replay that diverges.
    rules: int = RULES_VERSION  #: The version of the rules.

    @classmethod
    def from_match(cls, match: Match, *, player: str = "") -> "Replay":
        """The replay of a match so far."""
        now = match.now
        return cls(
            seed=match.seed,
            actions=match.actions,
            config=match.config,
            max_steps=match.max_steps,
            player=printable(player)[:_LONGEST_NAME],
            end=now.end,
            total_reward=round(match.total_reward, 4),
            stage=int(now.state.position.stage),
            score=int(now.state.position.player.score),
            check=_checksum(match),
        )

    of = from_match  #: The former name, for one version.

    def as_dict(self) -> dict[str, Any]:
        """The content of the file."""
        stored = {
            "seed": list(self.seed),
            "config": asdict(self.config),
            "actions": "".join(LETTERS[action] for action in self.actions),
        }
        return {"format": FORMAT, **{name: getattr(self, name) for name in _FIELDS}, **stored}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Replay":
        """A replay from the content of a file.

        Raises:
            ConfigError: the content is not a replay of these rules; the message names the field.
        """
        if content.get("format") != FORMAT:
            raise ConfigError(
                f"not a replay: format is {shortened(content.get('format'))}, expected {FORMAT}"
            )
        found = {name: _field(name, content) for name in _FIELDS}
        if found["rules"] != RULES_VERSION:
            raise ConfigError(
                f"a replay of rules version {found['rules']}, but this version of hackmatrix-rl "
                f"plays version {RULES_VERSION}. Use the version of the package that wrote it"
            )
        found["seed"] = tuple(found["seed"])
        found["config"] = _config(found["config"])
        found["actions"] = _actions(found["actions"])
        most = most_moves(found["config"])
        if most < max(1, len(found["actions"])):
            raise ConfigError(
                f"a replay of {len(found['actions']):,} moves with a history of "
                f"{found['config'].history:,}; games with such a history have at most {most:,} "
                "moves, since each position stores its history"
            )
        return cls(**found)

    def save(self, path: Path | str) -> None:
        """Writes the file."""
        write_json(typed_path(path), self.as_dict())

    @classmethod
    def load(cls, path: Path | str) -> "Replay":
        """Reads a file.

        Raises:
            ConfigError: the file does not exist, or is not a replay of these rules.
        """
        said = ". Give a replay of `eval --save-replays`."
        with refusing(f"{path}: ", said, of=DamagedFileError):
            content = read_json(typed_path(path))
        if content is None:
            raise ConfigError(f"{path}: there is no such file.")
        with refusing(f"{path}: ", of=ConfigError):
            return cls.from_dict(content)

    def check_move(self, move: int | None) -> None:
        """Raises a ConfigError if the replay has no such move; `None` is the last one."""
        if move is not None:
            check_move(move, len(self.actions))

    def match(
        self,
        move: int | None = None,
        *,
        on_move: Callable[[int, int], None] = lambda done, total: None,
    ) -> Match:
        """Replays the first `move` moves, or the full game, whose end is then checked.

        `on_move` is called with the number of moves played and the total.

        Raises:
            ConfigError: the replay has fewer moves, a move is illegal, or the game ends differently
                from the file.
        """
        self.check_move(move)
        total = len(self.actions)
        match = Match(self.seed, config=self.config, max_steps=self.max_steps)
        for number, action in enumerate(self.actions[:move]):
            said = f"the replay cannot be played again: move {number + 1} of {total}: "
            with refusing(said, "", of=ConfigError):
                match.play(action)
            on_move(number + 1, total if move is None else move)
        if move is None and self.check and _checksum(match) != self.check:
            here, recorded = _end_in_words(Replay.from_match(match)), _end_in_words(self)
            if here == recorded:
                here = f"in a position with the checksum {_checksum(match)}"
                recorded = f"it is {self.check}"
            raise ConfigError(
                f"the replay plays otherwise here: it ends {here}, but in the file {recorded}. The "
                "file was changed, or written by a version that draws other random numbers"
            )
        return match

    def summary(self) -> str:
        """The game in one line."""
        who = f"{self.player}: " if self.player else ""
        return (
            f"{who}{len(self.actions)} moves, stage {self.stage}, score {self.score}, "
            f"return {self.total_reward:.2f}, {self.end or 'unfinished'}"
        )


def check_move(move: int, moves: int) -> None:
    """Raises a ConfigError unless a game of `moves` moves has the move `move`."""
    if not 0 <= move <= moves:
        raise ConfigError(f"--move {move}: the replay has {moves} moves; use 0 to {moves}.")


def _end_in_words(replay: Replay) -> str:
    return f"in stage {replay.stage} with score {replay.score} ({replay.end or 'unfinished'})"


def _checksum(match: Match) -> str:
    arrays = to_arrays(match.now.state)
    words = b"".join(arrays[name].astype(np.int64).tobytes() for name in sorted(arrays))
    return hashlib.sha256(words).hexdigest()[:16]


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_text(value: object, most: int) -> bool:
    # A terminal interprets control characters.
    return isinstance(value, str) and len(value) <= most and value.isprintable()


def _is_seed(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(_is_whole(word, 0, 2**32 - 1) for word in value)


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "rules": (lambda value: _is_whole(value, 0, 10**6), "a whole number"),
    "seed": (_is_seed, "two whole numbers from 0 to 4294967295"),
    "config": (lambda value: isinstance(value, dict), "the sizes of the game by name"),
    "max_steps": (
        lambda value: value is None or _is_whole(value, 1, 10**9),
        "a positive whole number or null",
    ),
    "player": (lambda value: _is_text(value, _LONGEST_NAME), "a short printable text"),
    "actions": (
        lambda value: isinstance(value, str) and len(value) <= MOST_MOVES,
        f"a text of at most {MOST_MOVES:,} letters",
    ),
    "end": (
        lambda value: value is None or value in (WON, DIED, ILLEGAL, CUT_OFF),
        f"null, {WON!r}, {DIED!r}, {ILLEGAL!r} or {CUT_OFF!r}",
    ),
    "total_reward": (
        lambda value: type(value) in (int, float) and abs(value) <= _LARGEST_RETURN,
        f"a number of at most {_LARGEST_RETURN:,}",
    ),
    "stage": (lambda value: _is_whole(value, 1, LAST_STAGE), f"1 to {LAST_STAGE}"),
    "score": (lambda value: _is_whole(value, 0, 2**31 - 1), "a whole number from 0"),
    "check": (lambda value: _is_text(value, 64), "a short printable text"),
}
"""For each field of a file, a check of its value and the expected value in words."""


def _field(name: str, content: Mapping[str, Any]) -> Any:
    fits, expected = _FIELDS[name]
    if name not in content:
        raise ConfigError(f"a damaged replay: {name} is missing")
    if not fits(content[name]):
        raise ConfigError(
            f"a damaged replay: {name} is {shortened(content[name])}; expected {expected}"
        )
    return content[name]


def _config(sizes: Mapping[str, Any]) -> GameConfig:
    known = {each.name for each in fields(GameConfig)}
    if odd := sorted(map(str, set(sizes) - known)):
        raise ConfigError(
            f"a replay with config.{shortened(odd[0])}, which this version of hackmatrix-rl does "
            "not know. Use the version of the package that wrote it"
        )
    with refusing("a damaged replay: config: ", ""):
        return GameConfig(**sizes)


def _actions(letters: str) -> tuple[Action, ...]:
    for number, letter in enumerate(letters):
        if letter not in LETTERS:
            raise ConfigError(
                f"a damaged replay: actions: {letter!r} at move {number + 1} is not an action; "
                f"actions are the letters {LETTERS}"
            )
    return tuple(Action(LETTERS.index(letter)) for letter in letters)
