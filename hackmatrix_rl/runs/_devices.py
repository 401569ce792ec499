"""From settings to a config for the devices of this machine."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hackmatrix_rl.checkpoints import initial_settings
from hackmatrix_rl.config import (
    AUTO,
    HACKMATRIX,
    RunConfig,
    cpu_devices,
    default_algorithm,
    make_config,
    make_stages,
    preset_device,
    preset_for,
)
from hackmatrix_rl.runs._compose import named_mesh
from hackmatrix_rl.system import cut_cpu, make_deterministic, select_device


def config_here(
    preset: str | None,
    settings: Mapping[str, Any],
    *,
    given: Mapping[str, Any] = MappingProxyType({}),
    algorithm: str = "",
    trust_code: bool = False,
    note: Callable[[str], None] = lambda reason: None,
) -> RunConfig:
    """The config that a preset and some changes to it make on this machine.

    A training that starts from another one's weights has its network and observation where the
    changes do not say otherwise.

    What must be set before a device starts is set: determinism, and the number of devices that a
    CPU counts as.

    Args:
        preset: its name; `None` for the one that the settings name, or else the device's.
        settings: fields of a config, `algorithm` and `preset`.
        given: those on the command line, which stages of a training must not override.
        algorithm: the algorithm where the settings name none; empty: `default_algorithm`.
        trust_code: whether code that the run of `init` names may be imported.
        note: takes the reason for the algorithm where nobody names it.

    Raises:
        ConfigError: if a setting cannot work here, or such code is not trusted.
    """
    changes = dict(settings)
    named = changes.pop("preset", AUTO)
    preset = preset if preset is not None else named
    # Before anything asks which devices there are:
    if changes.get("deterministic"):
        make_deterministic()
    if (devices := cpu_devices(preset, changes)) is not None:
        cut_cpu(devices)
    if preset == AUTO:
        preset = preset_for(select_device(changes.get("device", AUTO)))
    if isinstance(mesh := changes.get("mesh"), str):
        # Before sizes are checked on it: what divides over devices that do not exist is no help.
        select_device(changes.get("device") or preset_device(preset))
        named_mesh(mesh)
    if changes.get("init") is not None:
        stored = initial_settings(
            changes["init"], changes.get("league"), trust_code=trust_code, named=changes.keys()
        )
        changes = {**stored, **changes}
    if (stages := changes.pop("stages", None)) is not None:
        changes.pop("algorithm", None)
        note(f"in {len(stages)} stages")
        own = {name: value for name, value in given.items() if name in changes}
        return make_stages(preset, changes, stages, own)
    if changes.get("algorithm") is None and not algorithm:
        note(default_algorithm(preset, changes.get("env", HACKMATRIX))[1])
    return make_config(preset, changes, algorithm)


def use_devices(config: RunConfig) -> None:
    """Makes this process compute on the devices that a config names.

    Raises:
        ConfigError: if JAX does not see them here.
    """
    if config.deterministic:
        make_deterministic()
    if config.cpu_devices is not None:
        cut_cpu(config.cpu_devices)
    select_device(config.device)
