"""Errors for users, with messages of one line."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

_SHOWN = 60  # characters of a value that a message repeats


class ConfigError(ValueError):
    """An invalid setting. The message names the flag and a valid value."""


class NoCheckpointError(ConfigError):
    """A checkpoint does not exist. The caller may list those that do."""


class UntrustedCodeError(ConfigError):
    """A stored setting names code that the user does not trust.

    Attributes:
        advice: the end of the message, which commands replace by the flag to use.
    """

    def __init__(self, said: str, advice: str) -> None:
        super().__init__(said + advice)
        self.advice = advice


class AgreedError(ConfigError):
    """An error that every process of a run raises, so each can exit without the others."""


class DamagedFileError(ValueError):
    """A file with invalid content. The message says what is wrong."""


class ArgumentError(ValueError):
    """An invalid argument, which a command can spell as a flag.

        raise ArgumentError("{buffer_size} holds no update; use {buffer_size:=64}", buffer_size=8)

    In Python the message is `buffer_size 8 holds no update; use buffer_size=64`. A command prints
    `--buffer-size 8 holds no update; use --buffer-size 64`. In the template, `{name}` is an
    argument with its value, `{name:only}` its name, and `{name:=16}` the argument with another
    value.

    Attributes:
        argument: the name of the first argument.
    """

    def __init__(self, template: str, /, **arguments: Any) -> None:
        self._template, self._arguments = template, arguments
        self.argument = next(iter(arguments))
        super().__init__(self._formatted(_in_python))

    def as_flags(self, settings: Mapping[str, str] = MappingProxyType({})) -> str:
        """The message with flags and a full stop. `settings` maps arguments to other settings."""
        said = self._formatted(lambda name, value: _as_flag(settings.get(name, name), value))
        return f"{said.rstrip('.')}."

    def _formatted(self, spell: "Callable[[str, Any], str]") -> str:
        named = {name: _Argument(name, value, spell) for name, value in self._arguments.items()}
        return self._template.format(**named)


@contextmanager
def refusing(
    said: str, then: str = ".", *, of: type[Exception] | tuple[type[Exception], ...] = ValueError
) -> Iterator[None]:
    """Converts errors of the block to a ConfigError: `said`, the error's message, `then`.

    `of` are the types of errors. Of an OSError, only the system's message is used.
    """
    try:
        yield
    except of as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{said}{why}{then}") from error


@contextmanager
def in_flags(
    settings: Mapping[str, str] = MappingProxyType({}), *, said: str = ""
) -> Iterator[None]:
    """Converts an ArgumentError of the block to a ConfigError: `said`, and its `as_flags`."""
    try:
        yield
    except ArgumentError as error:
        raise ConfigError(f"{said}{error.as_flags(settings)}") from error


class _Argument:
    """An argument in the template of an `ArgumentError`."""

    def __init__(self, name: str, value: Any, spell: "Callable[[str, Any], str]") -> None:
        self._name, self._value, self._spell = name, value, spell

    def __format__(self, spec: str) -> str:
        if spec == "only":
            return self._spell(self._name, _Argument)
        if spec.startswith("="):
            return self._spell(self._name, spec)
        return self._spell(self._name, self._value)


def _in_python(name: str, value: Any) -> str:
    if value is _Argument:
        return name
    return f"{name}{value}" if str(value).startswith("=") else f"{name} {value}"


def _as_flag(name: str, value: Any) -> str:
    if value is _Argument:
        return flag(name)
    value = str(value).removeprefix("=")
    switches = {"True": True, "False": False}
    return as_given(name, switches.get(value, value))


def flag(name: str) -> str:
    """The flag of a field: `num_envs` is `--num-envs`."""
    return "--" + name.replace("_", "-")


def as_given(name: str, value: Any) -> str:
    """A setting as on the command line: `--num-envs 8`, `--no-dueling`."""
    if isinstance(value, bool):
        return flag(name if value else f"no_{name}")
    return f"{flag(name)} {'none' if value is None else value}"


def printable(text: str, most: int | None = None) -> str:
    r"""Untrusted text, made safe to print, and truncated to `most` characters.

    Control characters (line breaks, too), marks that reorder text and lone surrogates become
    escapes: `\x1b`, `\n`, `\u202e`, `\ud800`.
    """
    rest = "" if most is None or len(text) <= most else "..."
    kept = text if most is None else text[:most]
    return "".join(each if each.isprintable() else _escape(each) for each in kept) + rest


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shortened(value: Any) -> str:
    """A value for a message: printable text without quotes, truncated if it is long."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a number of {value.bit_length()} bits"  # Python refuses to print it
    return printable(value if isinstance(value, str) else repr(value), _SHOWN)


def similar(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to an unknown one, ignoring case; `None` if none is close."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
