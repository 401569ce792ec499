"""The fields of a config as options of a command."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from hackmatrix_rl import runs, system
from hackmatrix_rl.cli._failures import notify
from hackmatrix_rl.cli._grouped import GROUPS, GroupedOption, SettingOption
from hackmatrix_rl.cli._options import TypedPath
from hackmatrix_rl.runs import config
from hackmatrix_rl.system.errors import ConfigError, flag

F = TypeVar("F", bound=Callable[..., Any])

AGENT = "RUN_OR_CHECKPOINT|pretrained|random|runner|expert|search(pretrained, 30)"
"""The names of players that `find_player` accepts."""


def completed(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """The names that start with the typed text."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class Value(click.ParamType[Any]):
    """The value of one field: `none` if allowed; an integer also as `12_000_000` or `1.2e7`.

    The config checks ranges, of files and flags alike.
    """

    def __init__(self, each: "dataclasses.Field[Any]") -> None:
        self._kind, self._optional = config.field_types(each)
        self._scheduled = config.is_scheduled(each)
        self._name = each.name
        self._choices = each.metadata["choices"]
        names = {int: "number", float: "number", str: "text"}
        plain = "number|schedule" if self._scheduled else names[self._kind]
        self.name = "|".join(self._choices) or plain

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return completed(self._choices, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if self._optional and value.lower() == "none":
            return None
        if self._scheduled:
            parsed = config.parse_field(self._name, value)
            return parsed if isinstance(parsed, float) else value
        try:
            return _whole(value) if self._kind is int else self._kind(value)
        except ValueError as error:
            wanted = "a whole number" if self._kind is int else "a number"
            wanted += " or none" if self._optional else ""
            raise ConfigError(f"{flag(self._name)} {value}: must be {wanted}.") from error


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def config_options(
    kinds: Mapping[str, type[config.RunConfig]],
    groups: Collection[str] = GROUPS,
    *,
    also: Collection[str] = (),
    preset: str | None = config.AUTO,
    in_help: bool = True,
) -> Callable[[F], F]:
    """Adds `--config` and an option for each config field of the algorithms `kinds`.

    Also adds `--algorithm` for several algorithms, and `--preset` unless `preset`, its default, is
    `None`. Without `in_help`, the help lists only the fields in `also`, and refers to the help of
    `train` for the others.
    """
    names = config.preset_names()
    summaries = "; ".join(f"{name}: {kind.summary}" for name, kind in kinds.items())
    usual = "the one in the preset"
    if preset == config.AUTO:
        first = config.default_algorithm(config.AUTO)[0]
        usual = f"{first}; in another --env: {config.baseline_algorithm()}"
    presets = click.option(
        "--preset",
        metavar="|".join(names),
        shell_complete=lambda context, option, typed: completed(names, typed),
        help="Settings for a kind of device (auto detects it), or for one algorithm.  "
        f"[default: {preset}]",
    )
    file = click.option(
        "--config",
        type=TypedPath(),
        metavar="FILE.toml",
        help="Settings from a TOML file, under the names of the flags. Flags override the file"
        + ("." if preset is None else ", and the file overrides the preset."),
    )
    algorithm = click.option(
        "--algorithm",
        cls=GroupedOption,
        group="Options",
        metavar="|".join(kinds),
        shell_complete=lambda context, option, typed: completed(kinds, typed),
        help=f"Learning algorithm. {summaries}.  [default: {usual}]",
    )

    def decorate(command: F) -> F:
        for name in reversed(_names_of(kinds.values())):
            found = {
                owner: each
                for owner, kind in kinds.items()
                if (each := kind.__dataclass_fields__.get(name)) is not None
            }
            each = next(iter(found.values()))
            if each.metadata["group"] in groups or name in also:
                command = _option(found, kinds, shown=in_help or name in also)(command)
                for old in (old for old, new in config.RENAMED.items() if new == name):
                    command = click.option(flag(old), old, type=Value(each), hidden=True)(command)
        command = file(command)
        if len(kinds) > 1:
            command = algorithm(command)
        return command if preset is None else presets(command)

    return decorate


def _names_of(kinds: Collection[type[config.RunConfig]]) -> list[str]:
    """The names of the fields of some configs; the fields of `RunConfig` come last."""
    ordered = [each.name for kind in kinds for each in config.options_of(kind)]
    ordered += [each.name for kind in kinds for each in config.settings_of(kind)]  # also retired
    run = {each.name for each in config.options_of(config.RunConfig)}
    return sorted(dict.fromkeys(ordered), key=lambda name: name in run)


def recipe_option(command: F) -> F:
    names = config.recipe_names()
    return click.option(
        "--recipe",
        metavar=f"{'|'.join(names)}|FILE.toml",
        shell_complete=lambda context, option, typed: completed(names, typed),
        help="Train in stages, each with its algorithm, from the weights of the stage before.  "
        f"[default: {config.DEFAULT_RECIPE}, unless an algorithm, weights or another --env are "
        "given]",
    )(command)


def settings_epilog(groups: Collection[str]) -> str:
    """The last lines of a help that refers to the help of `train` for the settings of a run."""
    trained = [
        each for kind in config.algorithms_of("train").values() for each in config.options_of(kind)
    ]
    there = {each.metadata["group"] for each in trained}
    return (
        "The settings of a run are flags here, too (--num-envs 64, --network gru). "
        "`hackmatrix-rl train --help-all` lists them, under "
        f"{', '.join(group for group in groups if group in there)}."
    )


def _option(
    fields: "Mapping[str, dataclasses.Field[Any]]",
    kinds: Mapping[str, type[config.RunConfig]],
    *,
    shown: bool,
) -> Callable[[F], F]:
    """The option of a field that some of the command's algorithms have."""
    # If the types differ, the widest one; each config checks its values.
    each = max(fields.values(), key=config.is_scheduled)
    option = partial(
        click.option,
        cls=SettingOption,
        help=each.metadata["help"],
        helps={
            name: (
                field.metadata["group"],
                f"{field.metadata['help']}  {_defaults(field, kinds[name])}".rstrip(),
            )
            for name, field in fields.items()
        },
        common=len(fields) == len(kinds),
        usual=all(
            name in fields for name, kind in kinds.items() if issubclass(kind, config.TrainConfig)
        ),
        env=each.metadata["env"],
        hidden=not shown or each.name in config.RETIRED,
    )
    if config.field_types(each)[0] is bool:
        off = flag(each.name).replace("--", "--no-", 1)
        return option(f"{flag(each.name)}/{off}", each.name, default=None)
    value = Value(each)
    metavar = value.name.upper() if "|" not in value.name else value.name
    return option(flag(each.name), each.name, type=value, metavar=metavar)


def _defaults(each: "dataclasses.Field[Any]", kind: type[config.RunConfig]) -> str:
    """The default of a field and its values in presets: `[default: 512; gpu, tpu: 4096]`."""
    shown = [] if each.default is None else [f"default: {_shown(each.default)}"]
    changed: dict[str, list[str]] = {}
    others = {"--init": kind.continued, "other --env": getattr(kind, "elsewhere", {})}
    for preset, settings in {**kind.presets, **others}.items():
        if preset in kind.sized_presets and each.name in config.SIZED:
            changed.setdefault("by the device", []).append(preset)
        elif settings.get(each.name, each.default) != each.default:
            changed.setdefault(_shown(settings[each.name]), []).append(preset)
    shown += [f"{', '.join(presets)}: {value}" for value, presets in changed.items()]
    return f"[{'; '.join(shown)}]" if shown else ""


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}".replace(",", "_") if type(value) is int else str(value)


def given_settings(
    context: click.Context, file: Path | None, command: str = "train"
) -> dict[str, Any]:
    """The settings of a file, overridden by those on the command line.

    `command` is the command that the file must be for; empty for any. Former names of settings are
    reported on standard error.
    """
    given = typed_options(context)
    old = [name for name in given if name in config.RENAMED]
    config.check_one_name(old, given, is_flag=True)
    for name in old:
        notify(config.renamed_line(name, is_flag=True))
    for name in given.keys() & config.RETIRED:
        notify(config.retired_line(name, is_flag=True))
    settings = {} if file is None else config.read_settings(file, command=command, report=notify)
    return settings | typed_settings(context)


def typed_settings(context: click.Context) -> dict[str, Any]:
    """The settings on the command line, under their current names."""
    known = {"algorithm", *_names_of(config.algorithms().values())}
    return {
        name: value
        for name, value in config.rename(typed_options(context))[0].items()
        if name in known
    }


def typed_options(context: click.Context) -> dict[str, Any]:
    """All options on the command line."""
    source = context.get_parameter_source
    return {n: v for n, v in context.params.items() if source(n) is ParameterSource.COMMANDLINE}


def _recipe(context: click.Context, preset: str | None, settings: Mapping[str, Any]) -> str | None:
    """The recipe of a training; `None` if other settings choose the algorithm."""
    asked: str | None = context.params.get("recipe")
    others = sorted(settings.keys() & {"algorithm", "stages"})
    if asked is not None:
        if others:
            raise ConfigError(
                f"--recipe {asked}: {others[0]} also chooses the algorithm. Use one of them."
            )
        return asked
    elsewhere = settings.get("env", config.HACKMATRIX) != config.HACKMATRIX
    if "recipe" not in context.params or others or "init" in settings or elsewhere:
        return None
    named = str(preset or settings.get("preset", config.AUTO))
    return (
        config.DEFAULT_RECIPE
        if named == config.AUTO or config.preset_device(named) != config.AUTO
        else None
    )


def chosen_config(
    context: click.Context,
    preset: str | None,
    file: Path | None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    *,
    algorithm: str = "",
    note: Callable[[str], None] = lambda reason: None,
    target: "system.Target | None" = None,
) -> config.RunConfig:
    """The config of preset, file and options; selects its device unless there is a `target`.

    Options override the file, the file overrides the command's `defaults`, and these override the
    preset. For `algorithm` and `note` see `config_here`.
    """
    settings = {**defaults, **given_settings(context, file)}
    given = typed_settings(context)
    if (recipe := _recipe(context, preset, settings)) is not None:
        settings = config.read_settings(config.recipe_file(recipe), report=notify) | settings
    trust_code = context.params.get("trust_code", False)
    made = runs.config_here(
        preset,
        settings,
        given=given,
        algorithm=algorithm,
        trust_code=trust_code,
        note=note,
        report=notify,
        target=target,
    )
    if target is None:
        system.select_device(made.device)
    return made
