"""Settings from outside: a TOML file, or the JSON that lies in a run's folder."""

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hackmatrix_rl.training.config import ConfigError, TrainConfig, field_types


def closest(name: str, known: list[str]) -> str:
    """` Did you mean ...?`, where some known name is like the unknown one."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def read_settings(path: Path) -> dict[str, Any]:
    """Reads settings from a TOML file: keys are fields of `TrainConfig`, or `preset`.

    Keys may be written with `-` or `_`. Tables are for the reader's order alone: a field may
    stand at the top or in any table.

    Raises:
        ConfigError: if the file cannot be read, is no TOML, or holds an unknown key.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: not valid TOML: {error}.") from error
    fields = dataclasses.fields(TrainConfig)
    known = [each.name for each in fields] + ["preset"]
    optional = {each.name for each in fields if field_types(each)[1]}
    settings: dict[str, Any] = {}
    for key, value in _flat(content):
        name = key.replace("-", "_")
        if name not in known:
            raise ConfigError(f"--config {path}: unknown setting {key!r}.{closest(name, known)}")
        if name in settings:
            raise ConfigError(f"--config {path}: {key!r} is set twice.")
        settings[name] = None if value == "none" and name in optional else value
    return settings


def _flat(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in content.items():
        pairs += _flat(value) if isinstance(value, dict) else [(key, value)]
    return pairs


# What fields were called in configs that lie in old checkpoints.
_RENAMED = MappingProxyType({"keep_checkpoints": "keep"})


def config_from_dict(settings: Mapping[str, Any]) -> TrainConfig:
    """The config that `as_dict` wrote down, now or in an earlier version.

    Raises:
        ConfigError: on an unknown field or a value that cannot work.
    """
    known = [each.name for each in dataclasses.fields(TrainConfig)]
    settings = {_RENAMED.get(name, name): value for name, value in settings.items()}
    for name in settings:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}.{closest(name, known)}")
    return TrainConfig(**settings)
