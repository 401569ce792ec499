"""Options: fields of a frozen dataclass that are also flags and keys of a TOML file."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from types import UnionType
from typing import Any, get_args

from hackmatrix_rl.runs.config._renamed import RETIRED
from hackmatrix_rl.runs.config._texts import Text, bounds_of, parse_schedule
from hackmatrix_rl.system.errors import ConfigError, as_given, flag, refusing, shortened

COUNTED = 2**31 - 1
"""The largest number of a 32-bit counter."""

LONGEST = 500
"""Maximum number of characters of a text, because error messages repeat it."""


def option(
    default: Any,
    group: str,
    explanation: str,
    *,
    minimum: int | float | None = None,
    maximum: int | float | None = None,
    above: int | float | None = None,
    choices: tuple[str, ...] = (),
    because: str = "",
    resume: str = "",
    alike: bool = False,
    arrays: bool = False,
    env: str = "",
) -> Any:
    """A config field that is also a flag and a key of a file.

    Args:
        default: its default.
        group: its heading in a help text.
        explanation: its line in a help text.
        minimum: the smallest number.
        maximum: the largest number, or the maximum length of a text. By default, an integer must
            fit into 32 bits, and a text has at most `LONGEST` characters.
        above: a number that it must exceed.
        choices: the allowed texts.
        because: the reason for the maximum or the choices.
        resume: why a resumed run must keep it; empty if it may change.
        alike: whether a training that starts from the weights of another (`--init`) must share it,
            because it decides what the weights mean.
        arrays: whether it decides which arrays the network has.
        env: the only environment (`--env`) that has it; empty for all.
    """
    range_ = {"minimum": minimum, "maximum": maximum, "because": because, "above": above}
    texts = {"group": group, "help": explanation, "choices": choices}
    kept = {"resume": resume, "alike": alike, "arrays": arrays, "env": env}
    return field(default=default, metadata={**texts, **range_, **kept})


def changed(kind: type[Any], name: str, default: Any, explanation: str = "", **limits: Any) -> Any:
    """Redeclares a field of a base class with another default and, if given, help or limits.

    Args:
        kind: the dataclass that declares the field.
        name: the field.
        default: its new default.
        explanation: its new line in a help text; by default, the same.
        limits: arguments of `option` that differ.
    """
    words = {"help": explanation} if explanation else {}
    metadata = kind.__dataclass_fields__[name].metadata
    return field(default=default, metadata={**metadata, **words, **limits})


def options_in(group: str) -> Callable[..., Any]:
    """`option` for the fields of one group."""
    return lambda default, explanation, **limits: option(default, group, explanation, **limits)


in_run = options_in("Run")
in_game = options_in("Game")
in_devices = options_in("Devices")
in_collecting = options_in("Collecting")
in_network = options_in("Network")
in_learning = options_in("Learning")
in_memory = options_in("Memory")
in_watching = options_in("Watching")


def most(maximum: int | float, because: str) -> dict[str, Any]:
    """A maximum and its reason, as arguments of `option`."""
    return {"maximum": maximum, "because": because}


def options_of(kind: type[Any]) -> "list[dataclasses.Field[Any]]":
    """The fields of a config in the order of a help text, without the `RETIRED` ones.

    The fields of every run come last.
    """
    *own_classes, _every_run = [each for each in kind.__mro__ if dataclasses.is_dataclass(each)]
    own = {name for each in own_classes for name in vars(each).get("__annotations__", {})}
    listed = [each for each in settings_of(kind) if each.name not in RETIRED]
    return sorted(listed, key=lambda each: each.name not in own)


HIDDEN: Mapping[str, Any] = {"group": "", "resume": "", "arrays": False, "env": ""}
"""The metadata of a field that is not a setting: a run sets it itself."""


def settings_of(kind: Any) -> "list[dataclasses.Field[Any]]":
    """The fields of a config that are settings; a run sets the others (`HIDDEN`) itself.

    For an instance, this leaves out the settings of other environments and the `RETIRED` ones.
    """
    fields = [each for each in dataclasses.fields(kind) if each.metadata["group"]]
    if isinstance(kind, type):
        return fields
    places = "", getattr(kind, "env", "")
    return [e for e in fields if e.metadata["env"] in places and e.name not in RETIRED]


def field_types(each: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """A field's plain type, and whether it may be `None`."""
    annotation = each.type
    if isinstance(annotation, UnionType):
        plain = [part for part in get_args(annotation) if part is not type(None)]
        return plain[0], True
    assert isinstance(annotation, type)
    return annotation, False


def is_scheduled(each: "dataclasses.Field[Any]") -> bool:
    """Whether a field takes a number or the text of a schedule."""
    return {float, str} <= set(get_args(each.type))


def parse_field(name: str, text: str) -> float | Text:
    """The number or schedule of a field; raises a ConfigError if the text is neither."""
    with refusing(f"{flag(name)} "):
        return parse_schedule(text)


def typed(each: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value in the field's type; raises a ConfigError if it has another type."""
    kind, optional = field_types(each)
    if value is None and optional:
        return None
    if is_scheduled(each) and isinstance(value, str):
        parsed = parse_field(each.name, value)
        return parsed if isinstance(parsed, float) else str(parsed)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            said = f"{flag(each.name)} {shortened(value)}"
            raise ConfigError(f"{said}: must be a finite number.") from error
    if kind is int and isinstance(value, float) and value.is_integer():  # 1e6, as the flag takes it
        return int(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        article = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        wanted = article.get(kind.__name__, "text") + (" or none" if optional else "")
        said = shortened(repr(value) if isinstance(value, str) else value)
        raise ConfigError(f"{flag(each.name)} {said}: must be {wanted}.")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigError(f"{flag(each.name)} {shortened(value)}: must be text in UTF-8.")
    return value


def check_each(config: Any) -> None:
    """Turns each setting of a new config into its field's type."""
    for each in settings_of(config):
        value = typed(each, getattr(config, each.name))
        object.__setattr__(config, each.name, value)
        if value is not None:
            check_range(each, value)


def other_env(each: "dataclasses.Field[Any]", value: Any, env: object) -> str:
    """The error message for a setting that only another environment has."""
    given = as_given(each.name, value if isinstance(value, bool) else shortened(value))
    return (
        f"{given}: a setting of --env {each.metadata['env']}, and this training is in --env "
        f"{shortened(env)}. Leave one of them out."
    )


def check_range(each: "dataclasses.Field[Any]", value: Any) -> None:
    """Raises a ConfigError if a value, or an end of a schedule, is outside the field's range."""
    if is_scheduled(each) and isinstance(value, str):
        for end in bounds_of(value):
            check_range(each, end)
        return
    limits = each.metadata
    said = f"{flag(each.name)} {shortened(value)}"
    if limits["choices"] and value not in limits["choices"]:
        more = f" {limits['because']}." if limits["because"] else ""
        raise ConfigError(f"{said}: unknown. Use {_one_of(limits['choices'])}.{more}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{said}: must be a finite number.")
    if limits["above"] is not None and value <= limits["above"]:
        raise ConfigError(f"{said} is too small. Use more than {limits['above']}.")
    if limits["minimum"] is not None and value < limits["minimum"]:
        raise ConfigError(f"{said} is too small. Use {limits['minimum']} or more.")
    maximum, because = limits["maximum"], limits["because"]
    if isinstance(value, str):
        if len(value) > (maximum or LONGEST):
            raise ConfigError(f"{said} is too long. Use {maximum or LONGEST} characters or less.")
        return
    if maximum is None and type(value) is int:
        maximum, because = COUNTED, "it is counted in 32 bits"
    if maximum is not None and value > maximum:
        why = f": {because}" if because else ""
        raise ConfigError(f"{said} is too large. Use {maximum} or less{why}.")


def _one_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
