"""Presets: settings for a kind of device, under a name, for each algorithm."""

from collections.abc import Mapping
from typing import Any

from hackmatrix_rl.config._environments import HACKMATRIX
from hackmatrix_rl.config._options import check_range, typed
from hackmatrix_rl.config._registry import (
    algorithms,
    algorithms_of,
    check_settings,
    config_class,
    default_algorithm,
)
from hackmatrix_rl.config._renamed import closest
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.errors import ConfigError

AUTO = "auto"


def preset_names(command: str = "train") -> list[str]:
    """The values of `--preset`, of all algorithms of a command."""
    kinds = algorithms_of(command).values()
    return list(dict.fromkeys([AUTO, *(name for kind in kinds for name in kind.presets)]))


def preset_for(backend: str) -> str:
    """The preset for a JAX backend: `cpu`, `gpu` or `tpu`."""
    return {"gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}.get(backend, "cpu")


def preset_device(preset: str) -> str:
    """The kind of device that a preset is for; `auto` if it is for any."""
    for kind in algorithms().values():
        if (device := kind.presets.get(preset, {}).get("device")) is not None:
            return str(device)
    return AUTO


def cpu_devices(preset: str, settings: Mapping[str, Any]) -> int | None:
    """The value of `cpu_devices` on a CPU, before the kind of device is known.

    Args:
        preset: a name, or `auto`.
        settings: that differ from the preset.

    Raises:
        ConfigError: if it is not a number of devices.
    """
    name = "cpu" if preset == AUTO else preset
    having = [kind.presets[name] for kind in algorithms().values() if name in kind.presets]
    chosen = having[0] if having else {}
    # JAX takes the number before the whole config is made and checked.
    field = RunConfig.__dataclass_fields__["cpu_devices"]
    devices: int | None = typed(field, {**chosen, **settings}.get("cpu_devices"))
    if devices is not None:
        check_range(field, devices)
    return devices


def make_config(preset: str, settings: Mapping[str, Any], algorithm: str = "") -> RunConfig:
    """A preset with some settings changed, for the algorithm that they name.

    Args:
        preset: a name that the algorithm has among its presets.
        settings: that differ from the preset; `algorithm` may be one of them.
        algorithm: the algorithm where the settings name none; empty: `default_algorithm`.

    Raises:
        ConfigError: on an unknown algorithm or preset, a setting that the algorithm does not have,
            or a value that cannot work.
    """
    _check_preset(preset)
    why = ""
    name = settings.get("algorithm")
    if name is None:
        name, why = (
            (algorithm, "")
            if algorithm
            else default_algorithm(preset, settings.get("env", HACKMATRIX))
        )
    kind = config_class(name, command="train")
    if preset not in kind.presets:
        others = [n for n, other in algorithms_of("train").items() if preset in other.presets]
        raise ConfigError(
            f"--preset {preset}: of --algorithm {' or '.join(others)}, not of {name}. Leave one "
            "of them out."
        )
    chosen = {each: value for each, value in settings.items() if each != "algorithm"}
    check_settings(kind, chosen, why)
    return kind.of_preset(preset, chosen)


def _check_preset(preset: str) -> None:
    """Raises a ConfigError unless some algorithm has a preset."""
    known = preset_names()
    if preset not in known:
        raise ConfigError(
            f"--preset {preset}: unknown. Use {', '.join(known)}. {closest(preset, known)}".rstrip()
        )
