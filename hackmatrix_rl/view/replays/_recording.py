"""A recorded game of any environment; showing it needs neither the environment nor the player."""

import base64
import binascii
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix_rl.env import MOST_PIXELS
from hackmatrix_rl.system import read_json, typed_path, write_json
from hackmatrix_rl.system.errors import (
    ConfigError,
    DamagedFileError,
    printable,
    refusing,
    shortened,
)
from hackmatrix_rl.view._drawing import Drawing, Pixels
from hackmatrix_rl.view._show import drawing_of_text
from hackmatrix_rl.view.replays._match import Opinion, number_data, opinion_data
from hackmatrix_rl.view.replays._replay import Replay, check_move

RECORDING = "hackmatrix-recording-1"

_LARGEST = 2**53  # the largest integer
_MOST_SCENES, _MOST_ACTIONS, _MOST_TEXT, _LONGEST = 20_000, 10_000, 40_000, 200
_LEAST_SIDE = 320  # least pixels of the longer side of a shown picture
_ENDS = ("terminated", "truncated")


@dataclass(frozen=True)
class Scene:
    """A recorded position of a game, and the action that led to it."""

    picture: str | bytes  #: Lines of text, or the content of a PNG file.
    legal: tuple[int, ...]  #: The legal actions; none at the end.
    #: The action that led here: a number, or the text of an action of a space that is no list;
    #: `None` at the start.
    action: int | str | None = None
    reward: float = 0.0  #: The reward of that action.
    terms: Mapping[str, float] | None = None  #: The reward terms by name, if there are any.
    end: str | None = None  #: `terminated`, `truncated`, or `None` before the end.
    opinion: Opinion[int | str] | None = None  #: The player's opinion of the position.

    def drawing(self) -> Drawing:
        """The picture, at least 320 pixels wide or high."""
        if isinstance(self.picture, str):
            return drawing_of_text(self.picture)
        width, height = _size(self.picture)
        factor = max(1, -(-_LEAST_SIDE // max(width, height)))
        wide, high = width * factor, height * factor
        return Drawing(wide, high, (Pixels(0, 0, wide, high, self.picture),), "a picture")


@dataclass(frozen=True)
class Recording:
    """A recorded game. Showing its file needs no code of the environment."""

    environment: str  #: The displayed name of the environment.
    player: str  #: The displayed name of the player.
    num_actions: int  #: Number of actions; 0 unless they are a list.
    scenes: Sequence[Scene]  #: All positions, from the start.

    @property
    def total_reward(self) -> float:
        """The return so far."""
        return sum(scene.reward for scene in self.scenes)

    @property
    def moves(self) -> int:
        """The number of actions played."""
        return len(self.scenes) - 1

    @property
    def end(self) -> str | None:
        """How it ended: `terminated`, `truncated`, or `None` for an unfinished game."""
        return self.scenes[-1].end

    def summary(self) -> str:
        """The game in one line."""
        who = f"{self.player}: " if self.player else ""
        steps = "1 step" if self.moves == 1 else f"{self.moves:,} steps"
        return f"{who}{self.end or 'unfinished'} after {steps}: return {self.total_reward:g}"

    def until(self, move: int | None) -> "Recording":
        """The game up to a move; `None` for the full game.

        Raises:
            ConfigError: the game has fewer moves.
        """
        if move is None:
            return self
        check_move(move, self.moves)
        return replace(self, scenes=self.scenes[: move + 1])

    def drawings(self) -> list[Drawing]:
        """The pictures of all positions, in one size."""
        found = [scene.drawing() for scene in self.scenes]
        wide, high = max(each.width for each in found), max(each.height for each in found)
        return [replace(each, width=wide, height=high) for each in found]

    def as_dict(self) -> dict[str, Any]:
        """The content of the file."""
        numbers: dict[str | bytes, int] = {}
        scenes = []
        for scene in self.scenes:
            opinion = scene.opinion
            scenes.append(
                {
                    "picture": numbers.setdefault(scene.picture, len(numbers)),
                    "legal": list(scene.legal),
                    "action": scene.action,
                    "reward": number_data(scene.reward),
                    "terms": dict(scene.terms or {}),
                    "end": scene.end,
                    "opinion": None if opinion is None else opinion_data(opinion),
                }
            )
        return {
            "format": RECORDING,
            "environment": self.environment,
            "player": self.player,
            "num_actions": self.num_actions,
            "pictures": [_picture_data(picture) for picture in numbers],
            "scenes": scenes,
        }

    def save(self, path: Path | str) -> None:
        """Writes the file."""
        write_json(typed_path(path), self.as_dict())

    @classmethod
    def load(cls, path: Path | str) -> "Recording":
        """Reads a file.

        Raises:
            ConfigError: the file does not exist or is not a recording.
        """
        with refusing(f"{path}: ", of=DamagedFileError):
            content = read_json(typed_path(path))
        if content is None:
            raise ConfigError(f"{path}: there is no such file.")
        with refusing(f"{path}: ", of=ConfigError):
            return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Recording":
        """A recording from the content of a file; every field is checked.

        Raises:
            ConfigError: the content is not a recording; the message names the field.
        """
        return _Reader(content).recording()


def action_name(action: int | str) -> str:
    """The name of an action in any environment but HackMatrix."""
    return action if isinstance(action, str) else f"action {action}"


def action_text(action: int | np.ndarray) -> int | str:
    """The form of an action in a recording."""
    if not isinstance(action, np.ndarray):
        return action
    return printable(", ".join(f"{part:.3g}" for part in action.tolist()), _LONGEST)


def _size(png: bytes) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        return image.size


def _picture_data(picture: str | bytes) -> dict[str, str]:
    if isinstance(picture, str):
        return {"text": picture}
    return {"png": base64.b64encode(picture).decode()}


def load_game(path: Path | str) -> "Replay | Recording":
    """Reads the file of a game: a replay of HackMatrix, or a recording.

    Raises:
        ConfigError: the file does not exist or is neither.
    """
    try:
        content = read_json(typed_path(path)) or {}
    except DamagedFileError:
        content = {}  # `Replay.load` raises the error
    is_recording = content.get("format") == RECORDING
    return Recording.load(path) if is_recording else Replay.load(path)


class _Reader:
    """Checks the untrusted content of a file."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    def recording(self) -> Recording:
        content = self._content
        if content.get("format") != RECORDING:
            raise ConfigError(
                f"not a recording: format is {shortened(content.get('format'))}, "
                f"expected {RECORDING}"
            )
        self._actions = self._whole("num_actions", content.get("num_actions"), 0, _MOST_ACTIONS)
        pictures = [
            self._picture(f"pictures[{number}]", each)
            for number, each in enumerate(self._list("pictures", content.get("pictures")))
        ]
        scenes = [
            self._scene(f"scenes[{number}]", each, pictures)
            for number, each in enumerate(self._list("scenes", content.get("scenes")))
        ]
        if not scenes:
            raise self._wrong("scenes", [], "at least one position")
        return Recording(
            environment=self._text("environment", content.get("environment")),
            player=self._text("player", content.get("player")),
            num_actions=self._actions,
            scenes=scenes,
        )

    def _scene(self, name: str, found: Any, pictures: Sequence[str | bytes]) -> Scene:
        if not isinstance(found, dict):
            raise self._wrong(name, found, "an object")
        place = self._whole(f"{name}.picture", found.get("picture"), 0, len(pictures) - 1)
        action, terms, end = found.get("action"), found.get("terms"), found.get("end")
        if end not in (None, *_ENDS):
            raise self._wrong(f"{name}.end", end, f"null, {' or '.join(_ENDS)}")
        if not isinstance(terms, dict) or len(terms) > _LONGEST:
            raise self._wrong(f"{name}.terms", terms, "an object of numbers")
        legal = self._list(f"{name}.legal", found.get("legal"))
        return Scene(
            picture=pictures[place],
            legal=tuple(self._legal(f"{name}.legal", each) for each in legal),
            action=None if action is None else self._action(f"{name}.action", action),
            reward=self._number(f"{name}.reward", found.get("reward")),
            terms={
                self._text(f"{name}.terms", each): self._number(f"{name}.terms", number)
                for each, number in terms.items()
            },
            end=end,
            opinion=self._opinion(f"{name}.opinion", found.get("opinion")),
        )

    def _legal(self, name: str, found: Any) -> int:
        return self._whole(name, found, 0, self._actions - 1)

    def _opinion(self, name: str, found: Any) -> Opinion[int | str] | None:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self._wrong(name, found, "an object or null")

        def number(field: str) -> float | None:
            value = found.get(field)
            return None if value is None else self._number(f"{name}.{field}", value)

        def pairs(field: str) -> dict[int | str, Any]:
            listed = self._list(f"{name}.{field}", found.get(field, []))
            if not all(isinstance(each, list) and len(each) == 2 for each in listed):
                raise self._wrong(f"{name}.{field}", listed, "pairs of an action and a number")
            return {self._action(f"{name}.{field}", action): value for action, value in listed}

        def numbers(field: str) -> dict[int | str, float]:
            found = pairs(field)
            return {each: self._number(f"{name}.{field}", value) for each, value in found.items()}

        return Opinion(
            action=self._action(f"{name}.action", found.get("action")),
            value=number("value"),
            win_probability=number("win"),
            probabilities=numbers("probabilities"),
            search_values=numbers("values"),
            search_visits={
                action: self._whole(f"{name}.visits", count, 0, _LARGEST)
                for action, count in pairs("visits").items()
            },
        )

    def _picture(self, name: str, found: Any) -> str | bytes:
        if isinstance(found, dict) and set(found) == {"text"} and isinstance(found["text"], str):
            if len(found["text"]) <= _MOST_TEXT:
                return found["text"]
        elif isinstance(found, dict) and set(found) == {"png"} and isinstance(found["png"], str):
            try:
                content = base64.b64decode(found["png"], validate=True)
                # The size is in the header, so no large picture is decompressed.
                if max(_size(content)) <= MOST_PIXELS:
                    return content
            except (binascii.Error, OSError, ValueError, SyntaxError):
                pass  # refused below
        raise self._wrong(
            name, found, f"a text of at most {_MOST_TEXT:,} characters, or a PNG picture in base64"
        )

    def _list(self, name: str, found: Any) -> list[Any]:
        if not isinstance(found, list) or len(found) > _MOST_SCENES:
            raise self._wrong(name, found, f"a list of at most {_MOST_SCENES:,}")
        return found

    def _action(self, name: str, found: Any) -> int | str:
        if not self._actions:
            return self._text(name, found)
        return self._whole(name, found, 0, self._actions - 1)

    def _whole(self, name: str, found: Any, least: int, most: int) -> int:
        if type(found) is not int or not least <= found <= most:
            raise self._wrong(name, found, f"a whole number from {least} to {most}")
        return found

    def _number(self, name: str, found: Any) -> float:
        if found in ("nan", "inf", "-inf"):
            return float(found)
        fits = type(found) is int and abs(found) <= _LARGEST
        if not fits and not (type(found) is float and math.isfinite(found)):
            raise self._wrong(name, found, "a number")
        return float(found)

    def _text(self, name: str, found: Any) -> str:
        if not isinstance(found, str) or len(found) > _LONGEST or found != printable(found):
            raise self._wrong(name, found, "a short printable text")
        return found

    def _wrong(self, name: str, found: Any, expected: str) -> ConfigError:
        return ConfigError(
            f"a damaged recording: {name} is {shortened(found)}; expected {expected}"
        )
