"""Presets: named settings for a kind of device. Recipes: trainings in stages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from hackmatrix_rl.runs.config._device_games import DeviceGames
from hackmatrix_rl.runs.config._environments import HACKMATRIX
from hackmatrix_rl.runs.config._options import check_range, settings_of, typed
from hackmatrix_rl.runs.config._registry import (
    algorithms,
    algorithms_of,
    check_settings,
    config_class,
    default_algorithm,
)
from hackmatrix_rl.runs.config._renamed import closest
from hackmatrix_rl.runs.config._run_config import RunConfig
from hackmatrix_rl.runs.config._train_config import TrainConfig
from hackmatrix_rl.system import typed_path
from hackmatrix_rl.system.errors import ConfigError, as_given, shortened

AUTO = "auto"
_FOLDER = Path(__file__).parents[2] / "recipes"
DEFAULT_RECIPE = "default"
"""The recipe of `hackmatrix-rl train`."""
_OF_A_RUN = (
    *("run_dir", "checkpoint_dir", "device", "deterministic", "cpu_devices"),
    *("tracker", "tensorboard", "profile", "metric_names", "stop_unhealthy_members"),
)
"""Settings of a full run, such as Weights & Biases; a stage cannot override them."""
BEFORE = "the stage before"
"""The value of `init` in a stage until the previous stage is trained."""


def preset_names() -> list[str]:
    """The values of `--preset`, of all algorithms of `train`."""
    kinds = algorithms_of("train").values()
    return list(dict.fromkeys([AUTO, *(name for kind in kinds for name in kind.presets)]))


def preset_for(backend: str) -> str:
    """The preset for a JAX backend: `rocm` -> `gpu`."""
    return {"gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}.get(backend, "cpu")


def preset_device(preset: str) -> str:
    """The kind of device that a preset is for; `auto` if it is for any."""
    for kind in algorithms().values():
        if (device := kind.presets.get(preset, {}).get("device")) is not None:
            return str(device)
    return AUTO


def cpu_devices(preset: str, settings: Mapping[str, Any]) -> int | None:
    """The value of `cpu_devices` on a CPU, before the kind of device is known."""
    name = "cpu" if preset == AUTO else preset
    having = (kind.presets[name] for kind in algorithms().values() if name in kind.presets)
    # JAX takes the number before the full config can be made and checked.
    field = RunConfig.__dataclass_fields__["cpu_devices"]
    devices: int | None = typed(field, {**next(having, {}), **settings}.get("cpu_devices"))
    if devices is not None:
        check_range(field, devices)
    return devices


def make_config(
    preset: str,
    settings: Mapping[str, Any],
    algorithm: str = "",
    *,
    room: DeviceGames | None = None,
) -> RunConfig:
    """A preset with some settings changed, for the algorithm that they name.

    If they name none, it is `algorithm`, or else `default_algorithm`. For `room` see
    `RunConfig.of_preset`.
    """
    known = preset_names()
    if preset not in known:
        raise ConfigError(
            f"--preset {preset}: unknown. Use {', '.join(known)}. {closest(preset, known)}".rstrip()
        )
    name, why = settings.get("algorithm"), ""
    if name is None and algorithm:
        name = algorithm
    elif name is None:
        name, why = default_algorithm(preset, settings.get("env", HACKMATRIX))
    kind = config_class(name, command="train")
    if preset not in kind.presets:
        others = [n for n, other in algorithms_of("train").items() if preset in other.presets]
        raise ConfigError(
            f"--preset {preset}: of --algorithm {' or '.join(others)}, not of {name}. Leave one "
            "of them out."
        )
    chosen = {each: value for each, value in settings.items() if each != "algorithm"}
    check_settings(kind, chosen, why)
    return kind.of_preset(preset, chosen, room)


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def recipe_file(recipe: str) -> Path:
    """The file of a recipe: a name in `recipe_names`, or the path of a TOML file."""
    if recipe in recipe_names():
        return _FOLDER / f"{recipe}.toml"
    if recipe.endswith(".toml"):
        return Path(typed_path(recipe))
    near = closest(recipe, recipe_names())
    raise ConfigError(
        f"--recipe {shortened(recipe)}: unknown. Use {' or '.join(recipe_names())}, or the path of "
        f"a .toml file. {near}".rstrip()
    )


def make_stages(
    preset: str,
    settings: Mapping[str, Any],
    stages: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
    *,
    room: DeviceGames | None = None,
) -> RunConfig:
    """The config of the first stage, linked to the later ones (`RunConfig.then`).

    A stage has the common `settings`, its table, and the command line (`given`),
    as far as its algorithm has them. It inherits network and observation from the previous stage.
    `total_timesteps` on the command line is the length of all stages together.
    """
    kinds = []
    for number, stage in enumerate(stages, 1):
        if stage.get("algorithm") is None:
            known = " or ".join(algorithms_of("train"))
            raise ConfigError(f"stage {number}: names no algorithm. Add algorithm = {known}.")
        kinds.append(config_class(stage["algorithm"], command="train"))
        if not issubclass(kinds[-1], TrainConfig):
            raise ConfigError(
                f"stage {number}: --algorithm {stage['algorithm']} plays no game, so no stage "
                "before or after it fits. Train by it alone."
            )
        if number > 1 and not kinds[-1].continues:
            raise ConfigError(
                f"stage {number}: --algorithm {stage['algorithm']} cannot start from another "
                "algorithm's stage. Make it the first."
            )
        for name in stage:
            if name in _OF_A_RUN or name.startswith("wandb"):
                raise ConfigError(
                    f"stage {number}: {name}: a setting of the full run. Put it above the first "
                    "[[stage]]."
                )
    every = {each.name for kind in kinds for each in settings_of(kind)}
    check_settings(kinds[0], {n: v for n, v in {**settings, **given}.items() if n not in every})
    total = given.get("total_timesteps")
    lengths: list[int | None] = [None] * len(kinds)
    if total is not None:
        # Each stage keeps its share of the length that the stages have without it.
        settings, given = (
            {name: value for name, value in each.items() if name != "total_timesteps"}
            for each in (settings, given)
        )
        own = [each.total_timesteps for each in _made(preset, settings, stages, given, lengths)]
        lengths = [max(1, round(total * each / sum(own))) for each in own]
    made = _made(preset, settings, stages, given, lengths, room)
    for before, after in pairwise(made):
        check_alike(after, before)
    first = made[-1]
    for each in reversed(made[:-1]):
        first = replace(each, then=first)
    return first


def _made(
    preset: str,
    settings: Mapping[str, Any],
    stages: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
    lengths: Sequence[int | None],
    room: DeviceGames | None = None,
) -> list[Any]:
    """The config of each stage, not yet linked."""
    made: list[RunConfig] = []
    for stage, length in zip(stages, lengths, strict=True):
        kind = config_class(stage["algorithm"], command="train")
        has = {each.name for each in settings_of(kind)} | {"algorithm"}
        chosen = {n: v for n, v in {**settings, **stage, **given}.items() if n in has}
        if length is not None:
            chosen["total_timesteps"] = length
        if made:
            kept = {
                e.name: getattr(made[-1], e.name)
                for e in settings_of(made[-1])
                if e.metadata["alike"] and e.name in has
            }
            chosen = {**kept, **chosen, "init": BEFORE}
        made.append(make_config(preset, chosen, room=room))
    return made


def check_alike(config: RunConfig, other: RunConfig) -> None:
    """Refuses to start a training from weights whose outputs have another meaning."""
    if config.greedy != other.greedy:
        raise ConfigError(
            f"trained by --algorithm {other.algorithm}, and this training is by --algorithm "
            f"{config.algorithm}: one learns Q-values, the other a policy. Start from a training "
            "of the same kind."
        )
    arrays = [each for each in settings_of(other) if each.metadata["arrays"]]
    for each in (*settings_of(config), *arrays):
        # Another algorithm with the same outputs may lack the setting; arrays are the default's.
        lacking = each.default if each.metadata["arrays"] else getattr(config, each.name)
        here, there = (getattr(settings, each.name, lacking) for settings in (config, other))
        if each.metadata["alike"] and here != there:
            was, is_now = as_given(each.name, there), as_given(each.name, here)
            if not hasattr(config, each.name):
                raise ConfigError(
                    f"trained with {was}, which --algorithm {config.algorithm} lacks. Start from "
                    "another."
                )
            raise ConfigError(
                f"trained with {was}, but this training has {is_now}. "
                f"Use {was}, or start from another."
            )
