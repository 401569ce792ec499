"""Presets: settings for a kind of device, under a name."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hackmatrix_rl.config._algorithms import (
    FROM_REWARDS,
    FROM_SEQUENCES,
    FROM_TEACHER,
    NOT_REPLAYED,
    ONLY_PPO,
)
from hackmatrix_rl.config._config import (
    TrainConfig,
)
from hackmatrix_rl.config._options import (
    check_range,
    typed,
)
from hackmatrix_rl.config._renamed import closest
from hackmatrix_rl.config._replay_config import ReplayConfig
from hackmatrix_rl.errors import (
    ConfigError,
    flag,
)

# Two CPU devices of one thread each wait less for each other than one of two threads.
_REPLAY: Mapping[str, Any] = MappingProxyType({"algorithm": FROM_SEQUENCES, "cpu_devices": 2})

# What each preset sets. The rest has the defaults of `TrainConfig`.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # For PPO from random weights, about ten minutes on two cores. Two programs of one thread
        # each wait less for each other than two threads of one program do.
        "cpu": {"device": "cpu", "total_timesteps": 24_000_000, "cpu_devices": 2},
        # Large batches keep an accelerator busy, and its matrix units compute in bfloat16.
        "gpu": {
            "device": "gpu",
            "total_timesteps": 200_000_000,
            "num_envs": 4096,
            "updates_per_dispatch": 8,
            "precision": "bf16",
        },
        "tpu": {
            "device": "tpu",
            "total_timesteps": 200_000_000,
            "num_envs": 4096,
            "updates_per_dispatch": 8,
            "precision": "bf16",
        },
        # A few seconds, to see that everything works.
        "debug": {
            "mesh": "data=1",  # so few games do not divide over many devices
            "total_timesteps": 2048,
            "num_envs": 16,
            "num_steps": 16,
            "num_minibatches": 2,
            "update_epochs": 2,
            "updates_per_dispatch": 2,
            "width": 16,
            "max_steps": 200,
            "eval_episodes": 16,
        },
        # Q-learning that replays sequences, on whatever device there is.
        "fast": {**_REPLAY, "sequence_batch_size": 64, "train_freq": 4},
        "max": {**_REPLAY, "sequence_batch_size": 128, "train_freq": 8},
        "quality": {**_REPLAY, "sequence_batch_size": 32, "train_freq": 1},
    }
)

TAUGHT: Mapping[str, Any] = MappingProxyType(
    {
        "teacher": "expert",
        "observation": "tactical",
        "total_timesteps": 3_000_000,
        "width": 192,
        "num_minibatches": 32,
        "update_epochs": 3,
        "gamma": 0.997,
    }
)
"""What a device's preset sets for imitation: some minutes on two cores, from random weights."""
_WIDE: Mapping[str, Any] = MappingProxyType(
    {"total_timesteps": 24_000_000, "buffer_size": 2_097_152}
)
"""What the presets `gpu` and `tpu` change of it: an update has four times as many games, and there
are twice as many updates. Not measured on such a device."""

REPLAYED: Mapping[str, Any] = MappingProxyType(
    {
        "total_timesteps": 4_000_000,
        "num_envs": 64,
        "network": "gru",
        "width": 64,
        "buffer_size": 131_072,
        "updates_per_dispatch": 64,
        "learning_rate": 0.0003,
        "gamma": 0.997,
    }
)
"""What every preset but `debug` sets for Q-learning that replays sequences."""

_REPLAYED_SMALL: Mapping[str, Any] = MappingProxyType(
    {
        "network": "gru",
        "buffer_size": 1024,
        "sequence_batch_size": 16,
        "sequence_length": 4,
        "learning_starts": 0,
    }
)
"""What the preset `debug` sets for it."""

CONTINUED: Mapping[str, Any] = MappingProxyType(
    {
        "total_timesteps": 12_000_000,
        # Without what UNDO repeats, and without what pays for blocks that cost the game.
        "reward": "victory=0,score_gain=0,data_siphon=0,kills=0,distance_shaping=0",
        "gamma": "linear:0.997:0.9996",
        "ent_coef": "linear:0.003:0.0005",
        "learning_rate": 0.0007,
        "target_kl": 0.03,
        "critic_warmup_timesteps": 200_000,
        "aux_coefficient": 0.05,
        "aux_every": 2,
        "aux_victory": True,
    }
)
"""What a device's preset sets for PPO that starts from another training (`--init`)."""
_DEVICES = ("cpu", "gpu", "tpu")
_WARMUP_SHARE = 0.05
"""The most of a short training in which only the value head learns."""

AUTO = "auto"


def preset_names() -> list[str]:
    """The values of `--preset`."""
    return [AUTO, *PRESETS]


def preset_for(backend: str) -> str:
    """The preset for a JAX backend: `cpu`, `gpu` or `tpu`."""
    return {"gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}.get(backend, "cpu")


def cpu_devices(preset: str, settings: Mapping[str, Any]) -> int | None:
    """The value of `cpu_devices` on a CPU, before the kind of device is known.

    Args:
        preset: a name, or `auto`.
        settings: fields of `TrainConfig` that differ from the preset.

    Raises:
        ConfigError: if it is not a number of devices.
    """
    chosen = PRESETS.get("cpu" if preset == AUTO else preset, {})
    # JAX takes the number before the whole config is made and checked.
    field = TrainConfig.__dataclass_fields__["cpu_devices"]
    devices: int | None = typed(field, {**chosen, **settings}.get("cpu_devices"))
    if devices is not None:
        check_range(field, devices)
    return devices


def default_algorithm(preset: str, settings: Mapping[str, Any]) -> tuple[str, str]:
    """The algorithm of `hackmatrix-rl train` where nobody names one, and why it is that one.

    It is imitation, which wins most from random weights. A setting that only PPO has makes it PPO,
    and one that only Q-learning has makes it that. The preset `debug` stays PPO: a teacher takes
    longer to compile than all that it does.

    Args:
        preset: a name in `PRESETS`.
        settings: fields of `TrainConfig` that differ from the preset.
    """
    if (named := PRESETS.get(preset, {}).get("algorithm")) is not None:
        return str(named), f"the choice of --preset {preset}"
    for each in dataclasses.fields(ReplayConfig):
        if each.name in settings:
            return FROM_SEQUENCES, f"because of {flag(each.name)}"
    if preset not in _DEVICES:
        return FROM_REWARDS, f"the choice of --preset {preset}"
    for name in sorted(ONLY_PPO & settings.keys()):
        return FROM_REWARDS, f"because of {flag(name)}; without it, imitation"
    return FROM_TEACHER, "the choice of train where no flag asks for another"


def make_config(preset: str, settings: Mapping[str, Any]) -> TrainConfig:
    """A preset with some settings changed.

    Args:
        preset: a name in `PRESETS`.
        settings: fields of `TrainConfig` that differ from the preset.

    Raises:
        ConfigError: on an unknown preset or a value that cannot work.
    """
    if preset not in PRESETS:
        raise ConfigError(
            f"--preset {preset}: unknown. Use {', '.join(preset_names())}. "
            f"{closest(preset, preset_names())}".rstrip()
        )
    chosen = dict(PRESETS[preset])
    algorithm = settings.get("algorithm", chosen.get("algorithm"))
    if chosen.get("algorithm") not in (None, algorithm):
        raise ConfigError(
            f"--preset {preset}: of --algorithm {chosen['algorithm']}, not of {algorithm}. Leave "
            "one of them out."
        )
    if algorithm == FROM_SEQUENCES:
        chosen = _replayed(preset, chosen, settings)
    elif preset in _DEVICES and algorithm == FROM_TEACHER:
        chosen |= TAUGHT if preset == "cpu" else {**TAUGHT, **_WIDE}
        if settings.get("network") is not None:
            chosen.pop("width")  # it is that of the default network
    elif preset in _DEVICES and settings.get("init") is not None:
        chosen |= _continued(preset, settings)
    if settings.get("minibatch_size") is not None:
        # It replaces the preset's number of minibatches.
        chosen.pop("num_minibatches", None)
    return dataclasses.replace(TrainConfig(), **{**chosen, **settings})


def _replayed(
    preset: str, chosen: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A preset for Q-learning: without what it does not have."""
    kept = {name: value for name, value in chosen.items() if name not in NOT_REPLAYED}
    if preset == "debug":
        return {**kept, **_REPLAYED_SMALL}
    # Its batches are small: what pays on an accelerator for PPO's games does not for them.
    found = {**kept, **REPLAYED}
    if settings.get("network") is not None:
        found.pop("width")  # it is that of the default network
    return found


def _continued(preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """`CONTINUED`, as far as it goes with the settings."""
    found = dict(CONTINUED)
    if preset != "cpu":
        # An accelerator has time for more; the schedules are shares of it.
        found["total_timesteps"] = PRESETS[preset]["total_timesteps"]
    steps = typed(
        TrainConfig.__dataclass_fields__["total_timesteps"],
        settings.get("total_timesteps", found["total_timesteps"]),
    )
    found["critic_warmup_timesteps"] = min(
        found["critic_warmup_timesteps"], int(_WARMUP_SHARE * steps)
    )
    if settings.get("aux_coefficient") == 0:
        for name in ("aux_coefficient", "aux_every", "aux_victory"):
            del found[name]
    return found
