"""Options of a command and keys of a file, as fields of a frozen dataclass."""

import dataclasses
import math
from dataclasses import field
from types import UnionType
from typing import Any, get_args


class ConfigError(ValueError):
    """A setting that cannot work; the message names the flag and what would work."""


def flag(name: str) -> str:
    """The command line's spelling of a field: `num_envs` is `--num-envs`."""
    return "--" + name.replace("_", "-")


def option(
    default: Any,
    group: str,
    explanation: str,
    *,
    minimum: int | float | None = None,
    maximum: int | float | None = None,
    above: int | float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field with its one-line explanation and its range; the command line reads both."""
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "choices": choices}
    return field(default=default, metadata={"group": group, "help": explanation, **limits})


def field_types(each: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """A field's plain type, and whether it may be `None`."""
    annotation = each.type
    if isinstance(annotation, UnionType):
        plain = [part for part in get_args(annotation) if part is not type(None)]
        return plain[0], True
    assert isinstance(annotation, type)
    return annotation, False


def typed(each: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value as the field's type has it; raises a ConfigError if it is of another."""
    kind, optional = field_types(each)
    if value is None and optional:
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        article = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        wanted = article.get(kind.__name__, "text") + (" or none" if optional else "")
        raise ConfigError(f"{flag(each.name)} {value!r}: must be {wanted}.")
    return value


def check_range(each: "dataclasses.Field[Any]", value: Any) -> None:
    """Raises a ConfigError unless a value is in the field's range."""
    limits = each.metadata
    said = f"{flag(each.name)} {value}"
    if limits["choices"] and value not in limits["choices"]:
        raise ConfigError(f"{said}: unknown. Use {_one_of(limits['choices'])}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{said}: must be a finite number.")
    if limits["above"] is not None and value <= limits["above"]:
        raise ConfigError(f"{said} is too small. Use more than {limits['above']}.")
    if limits["minimum"] is not None and value < limits["minimum"]:
        raise ConfigError(f"{said} is too small. Use {limits['minimum']} or more.")
    if limits["maximum"] is not None and value > limits["maximum"]:
        raise ConfigError(f"{said} is too large. Use {limits['maximum']} or less.")


def _one_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
