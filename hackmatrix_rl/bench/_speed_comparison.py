"""The environment beside one of pgx: both in one process, in turns, so that noise hits both."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from hackmatrix_rl.bench._benchmark import (
    GAME_SIZES,
    chosen_sizes,
    device_of,
)
from hackmatrix_rl.bench._environment_speed import (
    RandomPlay,
    Speed,
    Timed,
)
from hackmatrix_rl.bench._pgx_environment import pgx_environment
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.env import (
    Environment,
    env_keys,
)
from hackmatrix_rl.runs import (
    check_played,
    make_environment,
    make_mesh,
    versions,
)

PGX_GAME = "minatar-asterix"
STEPS = 128
"""Of each game in a run."""


@dataclass(frozen=True)
class SpeedComparison:
    """Two environments that were measured in turns.

    Attributes:
        speeds: by name, ours first.
        ratios: ours to the other's, of each pair of neighbouring runs.
        checksums: over all observations, masks and rewards, by name.
        dropped_spawns: spawns that found no room in our games that ended.
        episodes: games that ended, by name.
        device: kind, platform and number.
        versions: of what computes.
        sizes: settings that speed depends on.
    """

    speeds: dict[str, Speed]
    ratios: tuple[float, ...]
    checksums: dict[str, int]
    dropped_spawns: int
    episodes: dict[str, int]
    device: dict[str, Any]
    versions: dict[str, str]
    sizes: dict[str, Any]

    @property
    def ratio(self) -> float:
        """The middle one."""
        return statistics.median(self.ratios)

    def as_dict(self) -> dict[str, Any]:
        """As `bench --compare pgx --json` writes it."""
        environments = {
            name: speed.as_dict()
            | {"checksum": self.checksums[name], "episodes": self.episodes[name]}
            for name, speed in self.speeds.items()
        }
        ours = next(iter(environments.values()))
        ours["dropped_spawns"] = self.dropped_spawns
        return environments | {
            "ratio": self.ratio,
            "ratios": {
                "min": min(self.ratios),
                "max": max(self.ratios),
                "pairs": list(self.ratios),
            },
            "device": self.device,
            "versions": self.versions,
            "sizes": self.sizes,
        }


def compare_with_pgx(
    config: TrainConfig, *, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> SpeedComparison:
    """Measures random play of our environment and of a pgx game in turns.

    Both have as many games, split over the same devices; what every step returns goes into a
    checksum. Ours is compiled as in training, the other as JAX compiles by itself.

    Args:
        config: capacities, games side by side, devices, seed.
        repeats: runs of each that count. One more of each comes first.
        clock: seconds since some moment.

    Raises:
        ConfigError: if pgx is not installed, or the games do not divide over the devices.
    """
    name = f"pgx {PGX_GAME}"
    environments: dict[str, Environment] = {
        "env": make_environment(config),
        name: pgx_environment(PGX_GAME),
    }
    devices = make_mesh(config)
    check_played(make_environment(config), math.ceil(config.num_envs / devices.size))
    keys = env_keys(jax.random.key(config.seed), config.num_envs)
    plays = {}
    for each, environment in environments.items():
        state, timestep = jax.jit(environment.reset)(keys)
        plays[each] = RandomPlay(
            environment,
            state,
            timestep.mask,
            mesh=devices,
            seed=config.seed,
            # Ours were chosen for our programs; JAX's own suit the other better.
            options=None if each == "env" else {},
            clock=clock,
        )
    speeds = in_turns(plays, steps=STEPS, repeats=repeats)
    tallies = {each: play.tally for each, play in plays.items()}
    return SpeedComparison(
        speeds=speeds,
        ratios=speeds["env"].ratios_to(speeds[name]),
        checksums={each: int(tally.checksum) for each, tally in tallies.items()},
        dropped_spawns=int(tallies["env"].dropped),
        episodes={each: int(tally.episodes) for each, tally in tallies.items()},
        device=device_of(devices),
        versions=versions(),
        sizes=chosen_sizes(config, GAME_SIZES) | {"num_steps": STEPS},
    )


def in_turns(plays: Mapping[str, Timed], *, steps: int, repeats: int) -> dict[str, Speed]:
    """The speeds of several that take turns, run by run.

    Args:
        plays: by name.
        steps: of each game in a run.
        repeats: runs of each that count. One more of each comes first.
    """
    for play in plays.values():
        play.run(steps)
    rounds = [tuple(play.run(steps) for play in plays.values()) for _ in range(repeats)]
    runs = zip(*rounds, strict=True)
    return {
        name: Speed(of_one, play.compile_seconds)
        for (name, play), of_one in zip(plays.items(), runs, strict=True)
    }
