"""The errors for users, each in one line."""

from typing import Any

_SHOWN = 60  # characters of a value that a message repeats


class ConfigError(ValueError):
    """A setting that cannot work. The message names the flag and what would work."""


class NoCheckpointError(ConfigError):
    """There is no checkpoint under a name. The caller may know other names."""


class AgreedError(ConfigError):
    """A mistake that all processes of a run know: each can end without the others."""


class DamagedFileError(ValueError):
    """A file with wrong content. The message says what is wrong."""


def flag(name: str) -> str:
    """The flag of a field: `num_envs` is `--num-envs`."""
    return "--" + name.replace("_", "-")


def as_given(name: str, value: Any) -> str:
    """A setting as a command line has it: `--num-envs 8`, `--no-dueling`."""
    if isinstance(value, bool):
        return flag(name if value else f"no_{name}")
    return f"{flag(name)} {'none' if value is None else value}"


def printable(text: str, most: int | None = None) -> str:
    r"""Text from a file or a stranger, safe to print.

    Control characters, which a terminal obeys, marks that reorder text, and lone surrogates, which
    nothing can encode, become escapes (`\x1b`, `\u202e`, `\ud800`). Line breaks are among them.

    Args:
        text: any text.
        most: characters to keep; `...` stands for the rest. `None` keeps all.
    """
    rest = "" if most is None or len(text) <= most else "..."
    kept = text if most is None else text[:most]
    return "".join(each if each.isprintable() else _escape(each) for each in kept) + rest


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shortened(value: Any) -> str:
    """A value for a message: printable text without quotes, cut where it is long."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a number of {value.bit_length()} bits"  # Python refuses to write it out
    return printable(value if isinstance(value, str) else repr(value), _SHOWN)
