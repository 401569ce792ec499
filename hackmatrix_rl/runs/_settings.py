"""Makes the config of a run on this machine, and checks the changes of a resumed run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from etils import epath

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.runs._compose import named_mesh
from hackmatrix_rl.runs._device_games import fitting, games_of_devices
from hackmatrix_rl.runs.checkpoints import initial_settings, read_arrays
from hackmatrix_rl.runs.config import (
    AUTO,
    HACKMATRIX,
    DeviceGames,
    RunConfig,
    TrainConfig,
    algorithms,
    check_settings,
    cpu_devices,
    default_algorithm,
    make_config,
    make_stages,
    preset_device,
    preset_for,
    settings_of,
)
from hackmatrix_rl.system import Target, cut_cpu, make_deterministic, select_device
from hackmatrix_rl.system.errors import ConfigError, as_given, flag


def config_here(
    preset: str | None,
    settings: Mapping[str, Any],
    *,
    given: Mapping[str, Any] = MappingProxyType({}),
    algorithm: str = "",
    trust_code: bool = False,
    note: Callable[[str], None] = lambda reason: None,
    report: Callable[[str], object] = lambda line: None,
    target: Target | None = None,
) -> RunConfig:
    """The config of a preset with some changes, on this machine or on a target.

    A training that starts from the weights of another inherits its network and observation, unless
    the changes override them. This also sets determinism and the number of CPU devices, which JAX
    takes only before a device starts.

    Without a `preset`, the settings or else the device decide it. `given` are the settings of the
    command line, which stages of a training must not override. `algorithm` is the default if the
    settings name none; if empty, it is `default_algorithm`, and `note` takes the reason. Some
    presets have sizes that follow the devices (`RunConfig.sized_presets`); `report` takes a line
    about a device that is not known.
    """
    changes = dict(settings)
    named = changes.pop("preset", AUTO)
    preset = preset if preset is not None else named
    # Before anything asks which devices there are:
    before_devices(changes, preset=preset if target is None else None)
    if preset == AUTO:
        asked = changes.get("device", AUTO)
        preset = preset_for(select_device(asked) if target is None else target.platform)
    if isinstance(mesh := changes.get("mesh"), str) and target is not None:
        named_mesh(mesh, target)
    elif isinstance(mesh, str):
        # Before the sizes: advice about sizes for devices that do not exist would not help.
        select_device(changes.get("device") or preset_device(preset))
        named_mesh(mesh)
    if changes.get("init") is not None:
        stored = initial_settings(
            changes["init"], changes.get("league"), trust_code=trust_code, named=changes.keys()
        )
        default, _ = default_algorithm(preset, changes.get("env", HACKMATRIX))
        chosen = changes.get("algorithm") or algorithm or default
        # Stages have settings in common, whatever their algorithms.
        kind: type[Any] = TrainConfig
        if "stages" not in changes:
            kind = algorithms().get(str(chosen), kind)
        has = {each.name for each in settings_of(kind)}
        # An algorithm that lacks these settings refuses `init` itself, with the reason.
        changes = {**{name: value for name, value in stored.items() if name in has}, **changes}
    if (stages := changes.pop("stages", None)) is not None:
        changes.pop("algorithm", None)
        note(f"in {len(stages)} stages")
    elif changes.get("algorithm") is None and not algorithm:
        note(default_algorithm(preset, changes.get("env", HACKMATRIX))[1])

    def made(room: DeviceGames | None) -> RunConfig:
        if stages is None:
            return make_config(preset, changes, algorithm, room=room)
        own = {name: value for name, value in given.items() if name in changes}
        return make_stages(preset, changes, stages, own, room=room)

    if (device := preset_device(preset)) not in ("gpu", "tpu"):
        return made(None)
    lines: list[str] = []
    room = games_of_devices({"device": device, **changes}, target, lines.append)
    config = made(room)
    asked = [changes] if stages is None else [{**changes, **stage} for stage in stages]
    sized = [
        stage
        for stage, its in zip(config.stages, asked, strict=True)
        if preset in stage.sized_presets
        and "num_envs" not in its
        and its.get("env", HACKMATRIX) == HACKMATRIX
    ]
    if room is None or not sized:
        return config
    for line in lines:
        report(line)
    fits = fitting(sized, room, target, trust_code=trust_code)
    return config if fits == room else made(fits)


def before_devices(settings: Mapping[str, Any], *, preset: str | None = "") -> None:
    """Sets what JAX takes only before a device starts: determinism, and the CPU devices.

    The settings may be unchecked. Those of a stored run have no `preset`; with `None`, the CPU
    devices stay as they are.
    """
    if settings.get("deterministic"):
        make_deterministic()
    if preset is not None and (devices := cpu_devices(preset, settings)) is not None:
        cut_cpu(devices)


def use_devices(config: RunConfig) -> None:
    """Makes this process compute on the devices that a config names."""
    before_devices({"deterministic": config.deterministic, "cpu_devices": config.cpu_devices})
    select_device(config.device)


def check_unchanged(run: object, stored: RunConfig, changes: Mapping[str, Any]) -> None:
    """Refuses changes that would invalidate what a run has learned.

    The arrays of a checkpoint fit many settings, so no other check finds most of these changes.
    """
    if changes.get("algorithm", stored.algorithm) != stored.algorithm:
        raise ConfigError(
            f"--algorithm {changes['algorithm']}: the run {run} is by --algorithm "
            f"{stored.algorithm}, and a run cannot change its algorithm. Leave --algorithm "
            "out, or begin a new run."
        )
    changes = {name: value for name, value in changes.items() if name != "algorithm"}
    check_settings(stored, changes, f"as the run {run} is")
    stored.check_changes(run, changes)


def check_network(
    run: object, checkpoint: epath.Path, stored: RunConfig, config: RunConfig, policy: ActorCritic
) -> None:
    """Refuses changed settings that make another network than a checkpoint's.

    Only the arrays decide: a width may be given that equals the network's default.
    """
    changed = [
        each.name
        for each in settings_of(stored)
        if each.metadata["arrays"] and getattr(config, each.name) != getattr(stored, each.name)
    ]
    if not changed or read_arrays(checkpoint, "policy").mismatch(policy) is None:
        return
    asked, was = (
        ", ".join(as_given(name, getattr(settings, name)) for name in changed)
        for settings in (config, stored)
    )
    raise ConfigError(
        f"{asked}: the run {run} was trained with {was}, which makes another network. "
        f"Leave {', '.join(map(flag, changed))} out, or begin a new run."
    )
