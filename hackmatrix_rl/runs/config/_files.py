"""Reads settings from a TOML file."""

import stat
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hackmatrix_rl.runs.config._options import field_types, settings_of
from hackmatrix_rl.runs.config._registry import algorithms, algorithms_of
from hackmatrix_rl.runs.config._renamed import (
    RENAMED,
    RETIRED,
    advice_for,
    closest,
    rename,
    renamed_line,
    retired_line,
)
from hackmatrix_rl.system import check_path, typed_path
from hackmatrix_rl.system.errors import ConfigError, shortened

_MOST_BYTES = 64 * 1024  # ten times the size of all settings
_MOST_DOTS = 1000  # in a line
MOST_STAGES = 100


def read_settings(
    path: Path, *, command: str = "train", report: Callable[[str], object] = warnings.warn
) -> dict[str, Any]:
    """Reads settings from a TOML file: keys are fields of a config, `algorithm` or `preset`.

    Keys may be written with `-` or `_`. A field may be at the top level or in any table; the names
    of tables have no meaning. Only `[[stage]]` tables do: each has the settings of one stage of a
    training, and the result has them as a list under `stages`. `command` selects the known
    settings (empty: all commands), and `report` takes a line for each old name.
    """
    said = f"--config {path}"
    content = _content(path, said)
    stages = content.pop("stage", None)
    if stages is None:
        return _settings_in(content, said, command, report)
    if not (isinstance(stages, list) and stages and all(isinstance(x, dict) for x in stages)):
        raise ConfigError(f"{said}: stage: must be tables, each under [[stage]].")
    if len(stages) > MOST_STAGES:
        raise ConfigError(f"{said}: {len(stages)} stages are too many. Use {MOST_STAGES} or less.")
    found = _settings_in(content, said, command, report)
    each = [_settings_in(x, f"{said}, stage {n}", command, report) for n, x in enumerate(stages, 1)]
    return {**found, "stages": each}


def read_space(
    path: Path, *, report: Callable[[str], object] = warnings.warn
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads a sweep from a TOML file: the settings of all its trainings, and its table `[space]`.

    The settings are as in `read_settings`. The entries of `[space]` are unchecked, except for their
    names.
    """
    said = str(path)
    content = _content(path, said)
    space = content.pop("space", None)
    if not isinstance(space, dict) or not space:
        raise ConfigError(
            f"{said}: has no setting to search in [space]. Add a table [space] with, say, "
            "learning_rate = {low = 1e-5, high = 1e-2, log = true}."
        )
    if "stage" in content:
        raise ConfigError(
            f"{said}: a sweep searches the settings of one training. Leave [[stage]] out, and "
            "name an algorithm."
        )
    settings = _settings_in(content, said, "train", report)
    # The names are checked like settings; the contents of the tables are not.
    names = _settings_in(dict.fromkeys(space, ""), f"{said}, [space]", "train", report)
    return settings, dict(zip(names, space.values(), strict=True))


def _content(path: Path, said: str) -> dict[str, Any]:
    check_path(str(path), said.removesuffix(f"{path}").strip() or "the file")
    path = Path(typed_path(path))
    try:
        text = _read(path).decode("utf-8-sig")  # editors on Windows begin a file with a mark
        # The parser takes minutes for a key with so many dots.
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise RecursionError
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{said}: {error.strerror or error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{said}: nested too deeply. Settings need no tables.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{said}: is not text in UTF-8. Save it as UTF-8.") from error
    # Invalid TOML, a number with thousands of digits, or a bad path:
    except ValueError as error:
        raise ConfigError(f"{said}: not valid TOML: {error}.") from error


def _settings_in(
    content: Mapping[str, Any], said: str, command: str, report: Callable[[str], object]
) -> dict[str, Any]:
    """The settings in the tables of a file, under their current names; see `read_settings`."""
    kinds = (algorithms_of(command) if command else algorithms()).values()
    fields = {each.name: each for kind in kinds for each in settings_of(kind)}
    known = ["algorithm", *fields, *(["preset"] if len(kinds) > 1 else [])]
    optional = {name for name, each in fields.items() if field_types(each)[1]}
    settings: dict[str, Any] = {}
    for key, value in _flat(content):
        name = key.replace("-", "_")
        if name in settings:
            raise ConfigError(f"{said}: {key!r} is set twice.")
        if RENAMED.get(name, name) not in known:
            meant = advice_for(name, is_flag=False) or closest(name, known)
            raise ConfigError(f"{said}: unknown setting {shortened(repr(key))}. {meant}".rstrip())
        settings[name] = None if value == "none" and RENAMED.get(name, name) in optional else value
    settings, old = rename(settings, source=said)
    for name in old:
        report(f"{said}: {renamed_line(name, is_flag=False)}")
    for name in settings.keys() & RETIRED:
        report(f"{said}: {retired_line(name, is_flag=False)}")
    if not isinstance(settings.get("preset", ""), str):
        preset = shortened(settings["preset"])
        raise ConfigError(f"{said}: preset {preset}: must be text, such as 'cpu'.")
    return settings


def _read(path: Path) -> bytes:
    """The bytes of a file or a pipe, at most `_MOST_BYTES`."""
    if stat.S_ISCHR(path.stat().st_mode) or stat.S_ISBLK(path.stat().st_mode):
        raise OSError("is a device, not a file")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(f"is larger than {_MOST_BYTES:,} bytes, too large for settings")
    return content


def _flat(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Keys and values of all tables at any depth, in the file's order; without recursion."""
    pairs: list[tuple[str, Any]] = []
    waiting = [*content.items()][::-1]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value.items()][::-1]
        else:
            pairs.append((key, value))
    return pairs
