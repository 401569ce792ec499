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


def shortened(value: Any) -> str:
    """A value for a message: text without quotes, and only the beginning of a long value."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a number of {value.bit_length()} bits"  # Python refuses to write it out
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
