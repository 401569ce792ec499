"""Checked reading of JSON objects from another program."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from hackmatrix_rl.games.hackmatrix import LARGEST
from hackmatrix_rl.system.errors import ConfigError, shortened

_LARGEST_REAL = 1e12
"""Bounds a reward: a victory pays 100 for each of up to `LARGEST` points."""
_LONGEST_TEXT = 100


class Record:
    """A JSON object with methods that read and check one field each.

    A field that is missing or `null` has the default, and is an error without one. Every message
    names the path of the field: `state.enemies[0].hp is 9; expected a whole number from 1 to 3`.
    """

    def __init__(self, value: Any, place: str, known: Iterable[str]) -> None:
        if not isinstance(value, dict):
            raise ConfigError(f"{place} is {shortened(repr(value))}; expected an object")
        known = list(known)
        for name in value:
            if name not in known:
                fields = ", ".join(known)
                raise ConfigError(
                    f"{place} has an unknown field {shortened(name)}; its fields are {fields}"
                )
        self._value: Mapping[str, Any] = value
        self._place = place

    def whole(
        self, name: str, least: int = 0, most: int = LARGEST, *, default: int | None = None
    ) -> int:
        """An integer from `least` to `most`."""
        value = self._of(name, default)
        if type(value) is not int or not least <= value <= most:
            self.refuse(name, value, f"a whole number from {least} to {most}")
        return int(value)

    def truth(self, name: str, *, default: bool | None = None) -> bool:
        """A Boolean."""
        value = self._of(name, default)
        if type(value) is not bool:
            self.refuse(name, value, "true or false")
        return bool(value)

    def real(self, name: str) -> float:
        """A number within the bounds of a reward."""
        value = self._of(name, None)
        # `not <=` refuses NaN; an int that overflows a float is compared without conversion.
        if type(value) not in (int, float) or not abs(value) <= _LARGEST_REAL:
            self.refuse(name, value, f"a number from {-_LARGEST_REAL:g} to {_LARGEST_REAL:g}")
        return float(value)

    def text(self, name: str) -> str:
        """A short string."""
        value = self._of(name, None)
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            self.refuse(name, value, f"a text of at most {_LONGEST_TEXT} characters")
        return str(value)

    def choice(self, name: str, choices: tuple[str, ...]) -> int:
        """The index of a string in `choices`, compared without case."""
        value = self._of(name, None)
        known = [each.lower() for each in choices]
        if not isinstance(value, str) or value.lower() not in known:
            self.refuse(name, value, f"one of {', '.join(choices)}")
        return known.index(value.lower())

    def wholes(self, name: str, least: int, most: int) -> list[int]:
        """A list of integers from `least` to `most`, at most one each; empty if missing."""
        values = self._list(name, most - least + 1)
        for value in values:
            if type(value) is not int or not least <= value <= most:
                self.refuse(name, value, f"whole numbers from {least} to {most}")
        return values

    def lists(self, name: str, size: int) -> list[list[Any]]:
        """A list of `size` lists of `size` values."""
        values = self._list(name)
        if [len(each) if isinstance(each, list) else -1 for each in values] != [size] * size:
            self.refuse(name, values, f"{size} lists of {size}")
        return values

    def records(
        self, name: str, known: Iterable[str], *, most: int | None = None
    ) -> "list[Record]":
        """A list of objects with these fields; empty if missing."""
        known = list(known)
        return [
            Record(value, f"{self._place}.{name}[{number}]", known)
            for number, value in enumerate(self._list(name, most))
        ]

    def record(self, name: str, known: Iterable[str]) -> "Record":
        return Record(self._of(name, None), f"{self._place}.{name}", known)

    def optional(self, name: str, known: Iterable[str]) -> "Record | None":
        """An object, or `None` if the field is missing."""
        return self.record(name, known) if self.has(name) else None

    def has(self, name: str) -> bool:
        """Whether the field exists and is not `null`."""
        return self._value.get(name) is not None

    def _list(self, name: str, most: int | None = None) -> list[Any]:
        value = self._value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(name, value, "a list")
        if most is not None and len(value) > most:
            self.refuse(name, value, f"at most {most} entries")
        found: list[Any] = value
        return found

    def _of(self, name: str, default: Any) -> Any:
        value = self._value.get(name)
        if value is not None:
            return value
        if default is None:
            raise ConfigError(f"{self._place}.{name} is missing")
        return default

    def refuse(self, name: str, value: Any, expected: str) -> NoReturn:
        """Raises a `ConfigError` about the value of a field."""
        shown = shortened(repr(value))
        raise ConfigError(f"{self._place}.{name} is {shown}; expected {expected}")
