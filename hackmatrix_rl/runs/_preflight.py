"""Checks before a run compiles anything: services, memory, disk."""

import http.client
import math
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.runs.config import LEAST_GAMES, RunConfig, TrainConfig
from hackmatrix_rl.runs.sinks import require_tensorboard, require_trackio
from hackmatrix_rl.system import available_memory, bytes_of, format_bytes, is_remote, within
from hackmatrix_rl.system.errors import ConfigError, as_given, flag
from hackmatrix_rl.training import Trainer, every_policy, remarks, working_bytes
from hackmatrix_rl.training.sharding import bytes_per_device, devices_of_one


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the fullest device. The compiler's figure is more exact: see `--dry-run`.

    `state` is the training state, `working` a lower bound on what an update needs in addition, and
    `checkpoint` one checkpoint on disk before compression, over all devices.
    """

    state: int
    working: int
    checkpoint: int

    @property
    def sure(self) -> int:
        """Bytes that every compiler needs."""
        return self.state + self.working


def estimate_memory(trainer: Trainer[Any]) -> MemoryEstimate:
    """Estimates a trainer's memory from shapes. Tracing a reset takes seconds."""
    state, algorithm = trainer.abstract_state(), trainer.algorithm
    stored = algorithm.checkpoint_state(state), every_policy(algorithm, state)
    return MemoryEstimate(
        state=bytes_per_device(state),
        working=working_bytes(algorithm, state),
        checkpoint=bytes_of(stored),
    )


_UNSENT = "--wandb-artifacts: nothing is uploaded without --tracker wandb"


def preflight(config: RunConfig, trainer: Trainer[Any], *, folder: str | None) -> list[str]:
    """Checks that a run can work here: its services, memory and disk.

    Other code checks the settings, and that the folders can be written. `folder` is the folder of
    the checkpoints, which may not exist yet; `None` is the current one. Returns lines to show: what
    the run needs, and likely mistakes.
    """
    if "tensorboard" in config.trackers:
        require_tensorboard()
    if "trackio" in config.trackers:
        require_trackio(config.wandb_project)
    if "wandb" in config.trackers and config.wandb_artifacts and is_remote(folder or "."):
        raise ConfigError(
            f"--wandb-artifacts: uploads from a folder here, and --checkpoint-dir {folder} is "
            "remote. Leave one of the two out."
        )
    if "wandb" in config.trackers and config.wandb_mode == "online":
        require_wandb()
    needed, room = checked_memory(config, trainer)
    lines = [] if "wandb" in config.trackers or not config.wandb_artifacts else [_UNSENT]
    lines += room
    updates = math.ceil((config.goal - config.begun_at) / trainer.algorithm.most_progress)
    lines += check_disk(config, needed.checkpoint, folder or ".", updates=updates)
    return lines + doubts(config, trainer)


def doubts(config: RunConfig, trainer: Trainer[Any]) -> list[str]:
    """Likely mistakes in a run that can work, a line for each."""
    if config.eager:  # its network need not be traceable
        return []
    lines = [remark.as_flags() for remark in remarks(trainer.algorithm)]
    devices = devices_of_one(trainer.mesh)
    games = config.at_once // devices
    on_cpu = trainer.mesh.devices.flat[0].platform == "cpu"
    if games < LEAST_GAMES and not (on_cpu and devices == 1):
        lines.append(
            f"A device has {games} of the {config.at_once} games of a minibatch, which takes as "
            f"long as {LEAST_GAMES}. Use more games, fewer minibatches, or a --mesh of fewer "
            "devices."
        )
    return lines


def check_played(environment: Environment, games: int) -> None:
    """Refuses more parallel games than fit into memory, for commands that do not train."""
    game = environment.config if isinstance(environment, HackMatrix) else None
    # A lower bound: the snapshots for UNDO, with one word for each enemy and transmission.
    one = 0 if game is None else game.history * 4 * (game.max_enemies + game.max_transmissions)
    available = available_memory()
    if available is not None and games * one > available[0]:
        raise ConfigError(
            f"--num-envs {games}: these games need at least {format_bytes(games * one)}, but "
            f"there are {format_bytes(available[0])} of {available[1]}. Use a smaller --num-envs."
        )


def checked_memory(config: RunConfig, trainer: Trainer[Any]) -> tuple[MemoryEstimate, list[str]]:
    """The memory that a trainer needs, and lines about it. This traces a reset."""
    needed = estimate_memory(trainer)
    return needed, check_memory(config, needed, available_memory())


def check_memory(
    config: RunConfig, needed: MemoryEstimate, available: tuple[int, str] | None
) -> list[str]:
    """Refuses a run that needs more than the available memory; returns one line to show."""
    names = list(config.memory)
    if config.members > 1:
        names.append("seeds" if config.vary is None else "vary")
    given = ", ".join(as_given(name, getattr(config, name)) for name in names)
    update = f", an update {format_bytes(needed.working)}" if needed.working else ""
    line = f"Memory a device, at least: state {format_bytes(needed.state)}{update}"
    if available is None:
        return [line]
    room, kind = available
    if needed.sure > room:
        smaller = " or ".join(map(flag, names))
        fit = config.members * room // needed.sure
        few = f" At most {fit:,} trainings at once can fit." if fit and config.members > 1 else ""
        raise ConfigError(
            f"{given}: needs at least {format_bytes(needed.sure)} a device, but there are "
            f"{format_bytes(room)} of {kind}.{few} Use a smaller {smaller}, or more devices."
        )
    return [f"{line}; of {format_bytes(room)} {kind}"]


def check_disk(
    config: RunConfig,
    checkpoint: int,
    folder: str,
    usage: Callable[[Path], Any] = shutil.disk_usage,
    *,
    updates: int = 0,
) -> list[str]:
    """Checks that the disk has room for all kept checkpoints and one more during a save.

    How many `keep_every` keeps of a training of `updates` is known if saves count updates.
    """
    if "://" in folder:
        return []
    place = Path(folder).absolute()
    while not place.exists():
        place = place.parent
    free = int(usage(place).free)
    best = isinstance(config, TrainConfig) and config.keep_best
    more = int(best)
    if config.keep_every is not None and config.save_interval is not None:
        more += updates // max(config.keep_every, config.save_interval)
    kept = config.keep + more
    if (kept + 1) * checkpoint > free:
        fewer = free // checkpoint - 1 - more
        advice = f"Use --keep {fewer}, or make room." if fewer >= 1 else "Make room."
        if config.keep_every is not None and fewer < 1:
            advice = "Use a larger --keep-every, or make room."
        named = "--run-dir" if config.checkpoint_dir is None else "--checkpoint-dir"
        raise ConfigError(
            f"{named} {place}: {format_bytes(free)} are free, but {kept} checkpoints and "
            f"one being written need up to {format_bytes((kept + 1) * checkpoint)}. {advice}"
        )
    return [
        f"A checkpoint takes up to {format_bytes(checkpoint)}; "
        f"{format_bytes(free)} are free on disk"
    ]


def require_wandb(*, timeout: float = 10.0) -> None:
    """Checks that Weights & Biases works: a login, and a service that answers."""
    import wandb  # takes seconds to import, and few runs use it

    offline = "--wandb-mode offline keeps everything here for `wandb sync`."
    if os.environ.get("WANDB_MODE", "online") != "online":
        return
    try:
        known = within(timeout, partial(wandb.login, prompt=False, verify=False))
        address = str(wandb.setup().settings.base_url)
    except (wandb.Error, TimeoutError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(
            f"--tracker wandb: {said}. Log in with `wandb login`. {offline}"
        ) from error
    if not known:
        raise ConfigError(
            f"--tracker wandb: no login found. Use `wandb login`, or set WANDB_API_KEY. {offline}"
        )
    try:
        within(timeout, lambda: urllib.request.urlopen(address, timeout=timeout).close())
    except urllib.error.HTTPError:
        return  # the service answers
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"--tracker wandb: {address} cannot be reached: {reason}. {offline}"
        ) from error
