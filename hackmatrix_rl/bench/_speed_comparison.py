"""Compares the environment with a pgx game: in one process, in turns, with the same noise."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from hackmatrix_rl.adapters import from_pgx
from hackmatrix_rl.bench._benchmark import GAME_SIZES, chosen_sizes, device_of
from hackmatrix_rl.bench._environment_speed import RandomPlay, Speed, Timed
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.env import Environment, env_keys
from hackmatrix_rl.runs import check_played, make_mesh, versions

PGX_GAME = "minatar-asterix"
STEPS = 128
"""Steps of each game in a run."""


@dataclass(frozen=True)
class SpeedComparison:
    """The speeds of two environments, measured in turns, with HackMatrix first.

    Attributes:
        ratios: HackMatrix's speed divided by the other's, for each pair of neighbouring runs.
        checksums: checksums of all observations, masks and rewards, by name.
        dropped_spawns: spawns without room, in the HackMatrix games that ended.
        episodes: number of games that ended, by name.
        sizes: settings that change the speed.
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
        """The median of the ratios."""
        return statistics.median(self.ratios)

    def as_dict(self) -> dict[str, Any]:
        """The form of `bench --compare pgx --json`."""
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
    """Measures random play of HackMatrix and of a pgx game in turns.

    Both have the same number of games on the same devices, and a checksum over the results of
    every step. HackMatrix is compiled as in training, pgx with JAX's default options.

    Raises:
        ConfigError: pgx is not installed, or the games do not divide over the devices.
    """
    name = f"pgx {PGX_GAME}"
    environments: dict[str, Environment] = {"env": config.environment(), name: from_pgx(PGX_GAME)}
    devices = make_mesh(config)
    check_played(config.environment(), math.ceil(config.num_envs / devices.size))
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
            # Our options suit our programs; JAX's own suit pgx better.
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
    """Measures several objects in turns, run by run, after one run of each that is not measured."""
    for play in plays.values():
        play.run(steps)
    rounds = [tuple(play.run(steps) for play in plays.values()) for _ in range(repeats)]
    runs = zip(*rounds, strict=True)
    return {
        name: Speed(of_one, play.compile_seconds)
        for (name, play), of_one in zip(plays.items(), runs, strict=True)
    }
