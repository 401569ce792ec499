"""The errors that a user is meant to see, each in one line."""

from typing import Any

_SHOWN = 60  # characters of a value that a message repeats


class ConfigError(ValueError):
    """A setting that cannot work; the message names the flag and what would work."""


class AgreedError(ConfigError):
    """A mistake that all processes of a run know of, so that each may end in its own time."""


class DamagedFileError(ValueError):
    """A file that does not hold what it should; the message says what is wrong with it."""


def flag(name: str) -> str:
    """The command line's spelling of a field: `num_envs` is `--num-envs`."""
    return "--" + name.replace("_", "-")


def shortened(value: Any) -> str:
    """A value as a message shows it: text as it is, and of anything long the beginning."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a number of {value.bit_length()} bits"  # Python refuses to write it out
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
