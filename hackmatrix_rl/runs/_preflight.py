"""What can be known to fail is found before anything is compiled."""

import http.client
import math
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hackmatrix_rl.config import (
    TrainConfig,
)
from hackmatrix_rl.env import EnvSpec, HackMatrix
from hackmatrix_rl.errors import (
    ConfigError,
)
from hackmatrix_rl.runs._memory_estimate import (
    MemoryEstimate,
    estimate_memory,
    least_memory,
)
from hackmatrix_rl.runs.sinks import require_tensorboard
from hackmatrix_rl.system import (
    available_memory,
    format_bytes,
    within,
)
from hackmatrix_rl.training import Trainer


def preflight(config: TrainConfig, trainer: Trainer[Any], *, folder: str | None) -> list[str]:
    """Looks whether a run can work here: its services, its memory, its disk.

    That its folders can be written is seen when they are made, and its settings were checked
    when the config was.

    Args:
        config: of the run.
        trainer: composed of it, not started.
        folder: of the checkpoints; it need not exist. `None` for the current folder.

    Returns:
        Lines to show: what it will need, and what looks tight.

    Raises:
        ConfigError: if it cannot work.
    """
    if config.tensorboard:
        require_tensorboard()
    if config.wandb and config.wandb_mode == "online":
        require_wandb()
    needed = estimate_memory(trainer)
    lines = check_memory(config, needed, available_memory())
    return lines + check_disk(config, needed.checkpoint, folder or ".")


def check_games(config: TrainConfig, spec: EnvSpec, *, devices: int) -> None:
    """Refuses far too many games before any are traced, which takes memory too.

    Args:
        config: says how many.
        spec: of their environment.
        devices: that share them.

    Raises:
        ConfigError: if they cannot fit.
    """
    games = math.ceil(config.num_envs / devices)
    needed = least_memory(config.game(), spec, games=games, num_steps=config.num_steps)
    check_memory(config, needed, available_memory())


def check_played(environment: HackMatrix, games: int) -> None:
    """Refuses far too many games side by side, where nothing is learned from them.

    Args:
        environment: to play in.
        games: as `--num-envs` says.

    Raises:
        ConfigError: if they cannot fit.
    """
    one = least_memory(environment.config, environment.spec, games=1, num_steps=0).sure
    available = available_memory()
    if available is not None and games * one > available[0]:
        raise ConfigError(
            f"--num-envs {games}: so many games need at least {format_bytes(games * one)}, but "
            f"there are {format_bytes(available[0])} of {available[1]}. Use a smaller --num-envs."
        )


def check_memory(
    config: TrainConfig, needed: MemoryEstimate, available: tuple[int, str] | None
) -> list[str]:
    """Compares what is needed with what there is.

    Only what is sure to be needed is a reason to refuse; the rest is an upper bound.

    Args:
        config: to say what would fit.
        needed: on the device that holds most.
        available: bytes there, and whose they are; `None` where nobody tells.

    Raises:
        ConfigError: if it cannot fit.
    """
    line = (
        f"Memory a device, estimated: state {format_bytes(needed.state)}, rollout "
        f"{format_bytes(needed.rollout)}, learning up to {format_bytes(needed.learning)}"
    )
    if available is None:
        return [line]
    room, whose = available
    if needed.sure > room:
        fits = _envs_that_fit(config, needed, room)
        advice = f"Use --num-envs {fits}" if fits else "Use a smaller --num-steps or --history"
        raise ConfigError(
            f"--num-envs {config.num_envs} with --num-steps {config.num_steps} needs at least "
            f"{format_bytes(needed.sure)} a device, but there are {format_bytes(room)} of {whose}. "
            f"{advice}, or more devices."
        )
    tight = needed.total > room
    advice = "; it may not fit: if so, use more --num-minibatches" if tight else ""
    return [f"{line}; of {format_bytes(room)} {whose}{advice}"]


def check_disk(
    config: TrainConfig,
    checkpoint: int,
    folder: str,
    usage: Callable[[Path], Any] = shutil.disk_usage,
) -> list[str]:
    """Looks whether all checkpoints that are kept find room, and one more being written.

    Args:
        config: says how many are kept.
        checkpoint: bytes of one.
        folder: theirs; a remote one (`gs://...`) is not looked at.
        usage: of the disk that holds a folder.

    Raises:
        ConfigError: if they do not.
    """
    if "://" in folder:
        return []
    place = Path(folder).absolute()
    while not place.exists():
        place = place.parent
    free = int(usage(place).free)
    kept = config.keep + config.keep_best
    if (kept + 1) * checkpoint > free:
        fewer = free // checkpoint - 1 - config.keep_best
        advice = f"Use --keep {fewer}, or make room." if fewer >= 1 else "Make room."
        raise ConfigError(
            f"--checkpoint-dir {place}: {format_bytes(free)} are free, but {kept} checkpoints and "
            f"one being written need up to {format_bytes((kept + 1) * checkpoint)}. {advice}"
        )
    return [
        f"A checkpoint takes up to {format_bytes(checkpoint)}; "
        f"{format_bytes(free)} are free on disk"
    ]


def require_wandb(*, timeout: float = 10.0) -> None:
    """Looks whether Weights & Biases can be used: a login, and a service that answers.

    Args:
        timeout: seconds to wait for the service, for all of its answer.

    Raises:
        ConfigError: if it cannot.
    """
    import wandb  # seconds to import, and rarely asked for

    offline = "--wandb-mode offline keeps everything here for `wandb sync`."
    if os.environ.get("WANDB_MODE", "online") != "online":
        return
    try:
        known = within(timeout, partial(wandb.login, prompt=False, verify=False))
        address = str(wandb.setup().settings.base_url)
    except (wandb.Error, TimeoutError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"--wandb: {said}. Log in with `wandb login`. {offline}") from error
    if not known:
        raise ConfigError(
            f"--wandb: no login found. Use `wandb login`, or set WANDB_API_KEY. {offline}"
        )
    try:
        within(timeout, lambda: urllib.request.urlopen(address, timeout=timeout).close())
    except urllib.error.HTTPError:
        return  # it answers
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(f"--wandb: {address} cannot be reached: {reason}. {offline}") from error


def _envs_that_fit(config: TrainConfig, needed: MemoryEstimate, room: int) -> int:
    """The most environments, in whole minibatches, that surely need less than there is."""
    unit = config.minibatches
    return int(config.num_envs * 0.8 * room / needed.sure) // unit * unit
