"""The registry of algorithms, and the checks of settings against it."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NoReturn

from hackmatrix_rl.runs.config._environments import HACKMATRIX
from hackmatrix_rl.runs.config._options import (
    check_range,
    field_types,
    other_env,
    settings_of,
    typed,
)
from hackmatrix_rl.runs.config._renamed import closest, rename
from hackmatrix_rl.runs.config._run_config import RunConfig
from hackmatrix_rl.system.errors import ConfigError, as_given, flag, shortened

_REGISTRY = "hackmatrix_rl.algorithms"
"""The module with the registry. It is imported lazily, because algorithms import this package."""


@cache
def algorithms() -> Mapping[str, type[RunConfig]]:
    """The config class of each algorithm, by name."""
    found: dict[str, type[RunConfig]] = {}
    for name, place in import_module(_REGISTRY).ALGORITHMS.items():
        module, _, attribute = place.partition(":")
        found[name] = getattr(import_module(module), attribute)
        assert found[name].algorithm == name, f"{place} has another name than the registry"
    return MappingProxyType(found)


def algorithms_of(command: str) -> Mapping[str, type[RunConfig]]:
    """The config classes of the algorithms that a command trains by, by name."""
    return {name: kind for name, kind in algorithms().items() if kind.command == command}


def default_algorithm(preset: str, env: object = HACKMATRIX) -> tuple[str, str]:
    """The algorithm of a training that names none, and the reason for it.

    A preset that only one algorithm has selects that algorithm.
    """
    registry = import_module(_REGISTRY)
    having = [name for name, kind in algorithms_of("train").items() if preset in kind.presets]
    if len(having) == 1:
        return having[0], f"the only one with --preset {preset}"
    if env != HACKMATRIX:
        return str(registry.BASELINE), f"the choice of --env {shortened(env)}"
    if preset in registry.QUICK_PRESETS:
        return str(registry.BASELINE), f"the choice of --preset {preset}"
    return str(registry.DEFAULT), "the default; --algorithm names another"


def baseline_algorithm() -> str:
    """The algorithm that `bench` and `compare` measure by default."""
    return str(import_module(_REGISTRY).BASELINE)


def config_class(name: object, *, command: str | None = None) -> type[RunConfig]:
    """The config class of an algorithm of `command`, by default of any."""
    known = algorithms() if command is None else algorithms_of(command)
    if isinstance(name, str) and name in known:
        return known[name]
    if isinstance(name, str) and name in algorithms():
        other = algorithms()[name].command
        raise ConfigError(f"--algorithm {name}: has its own command. Use hackmatrix-rl {other}.")
    *most, last = known
    near = closest(name, known) if isinstance(name, str) else ""
    use = f"Use {', '.join(most)} or {last}." if most else f"Use {last}."
    raise ConfigError(f"--algorithm {shortened(name)}: unknown. {use} {near}".rstrip())


def owners_of(name: str) -> list[str]:
    """The names of the algorithms that have a setting."""
    found = algorithms().items()
    return [each for each, kind in found if name in (field.name for field in settings_of(kind))]


def check_settings(
    kind: type[RunConfig] | RunConfig, settings: Mapping[str, Any], why: str = ""
) -> None:
    """Refuses settings that an algorithm or an environment does not have.

    `kind` may be the config that they change; `why` is the reason for this algorithm.
    """
    stored, kind = (None, kind) if isinstance(kind, type) else (kind, type(kind))
    env = settings.get("env", getattr(stored or kind, "env", ""))
    known = {each.name: each for each in settings_of(kind)}
    for name, value in settings.items():
        if name not in known:
            _refuse(kind, name, value, why)
        if known[name].metadata["env"] not in ("", env):
            raise ConfigError(other_env(known[name], value, env))


def checked_value(config: RunConfig, name: str, value: Any) -> Any:
    """A checked value of a setting for the algorithm and the environment of a config.

    `none` disables an optional setting. Checks across settings are left out.
    """
    check_settings(config, {name: value})
    (each,) = (each for each in settings_of(type(config)) if each.name == name)
    if value == "none" and field_types(each)[1]:
        return None
    value = typed(each, value)
    if value is not None:
        check_range(each, value)
    return value


def _refuse(kind: type[RunConfig], name: str, value: Any, why: str) -> NoReturn:
    owners = owners_of(name)
    if not owners:
        known = [each.name for each in settings_of(kind)]
        raise ConfigError(f"unknown setting {name!r}. {closest(name, known)}".rstrip())
    commands = {algorithms()[each].command for each in owners}
    if kind.command not in commands:
        raise ConfigError(
            f"{flag(name)}: a setting of hackmatrix-rl {' and '.join(sorted(commands))}, not of "
            f"hackmatrix-rl {kind.command}. Leave it out."
        )
    listed = " or ".join(each for each in owners if algorithms()[each].command == kind.command)
    because = f" ({why})" if why else ""
    given = as_given(name, value if isinstance(value, bool) else shortened(value))
    raise ConfigError(
        f"{given}: a setting of --algorithm {listed}, and this training is by "
        f"--algorithm {kind.algorithm}{because}. Use --algorithm {listed.split(' or ')[0]}, or "
        "leave it out."
    )


def config_from_dict(settings: Mapping[str, Any]) -> RunConfig:
    """The config that `as_dict` wrote, in this or an earlier version.

    Earlier versions also wrote the settings of other algorithms, which are ignored.
    """
    settings, _ = rename(settings)
    kind = config_class(settings.get("algorithm", import_module(_REGISTRY).BASELINE))
    fields = {each.name for each in settings_of(kind)} | {"begun_at"}
    for name in settings.keys() - fields - {"algorithm", "then"}:
        if not owners_of(name):
            raise ConfigError(f"unknown setting {name!r}. {closest(name, fields)}".rstrip())
    then = settings.get("then")
    if not (then is None or isinstance(then, Mapping)):
        raise ConfigError(f"then {shortened(then)}: must be the settings of the next stage.")
    found = {name: value for name, value in settings.items() if name in fields}
    return kind(**found, then=None if then is None else config_from_dict(then))
