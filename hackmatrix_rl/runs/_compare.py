"""Compares two training configurations: speed, memory and return."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import (
    Estimate,
    Judgement,
    OnProgress,
    evaluate_all,
    interquartile_mean,
    judge,
    policy_divergence,
)
from hackmatrix_rl.runs._compose import check_alone, compose
from hackmatrix_rl.runs._keys import run_keys
from hackmatrix_rl.runs._preflight import checked_memory
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system import describe_device, peak_memory
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Trainer

SECONDS_BETWEEN_NOTES = 60


@dataclass(frozen=True)
class Contender:
    """One of the two configurations. Its trainer is compiled once for all seeds."""

    name: str
    trainer: Trainer[Any]
    network: Callable[[Key[Array, ""]], ActorCritic]
    total_timesteps: int

    @property
    def environment(self) -> Environment:
        return self.trainer.environment

    def start(self, seed: int) -> None:
        network_key, training_key = run_keys(seed)
        self.trainer.start(training_key, self.network(network_key))

    @property
    def steps(self) -> int:
        return int(self.trainer.state.env_steps)

    def missing(self) -> int:
        """The number of updates left."""
        return max(0, math.ceil((self.total_timesteps - self.steps) / self.trainer.batch_size))


@dataclass
class Measured:
    """The results of one contender, over all seeds.

    `steps_per_second` has a value for each dispatch. `returns` (of the evaluation's episodes) and
    `policies` have one for each seed. `skipped` counts gradient steps that were not finite.
    """

    compile_seconds: float
    memory_bytes: int | None
    steps_per_second: list[float] = field(default_factory=list)
    skipped: int = 0
    returns: list[np.ndarray] = field(default_factory=list)
    policies: list[ActorCritic] = field(default_factory=list)

    @property
    def return_by_seed(self) -> list[float]:
        return [float(values.mean()) for values in self.returns]

    @property
    def interquartile(self) -> Estimate:
        """The interquartile mean of the returns, over seeds."""
        return interquartile_mean(np.reshape(self.return_by_seed, (-1, 1)))

    @property
    def speed(self) -> float:
        """Median of the environment steps per second over all dispatches."""
        return statistics.median(self.steps_per_second)


@dataclass(frozen=True)
class Comparison:
    """Two contenders, the baseline first, and whether the second is as good as the first.

    `divergence` has KL(baseline || candidate) in nats for each seed, on the baseline's
    observations. `divergence_of_seeds` is the same between baselines of neighbouring seeds, as a
    reference for noise; it is empty for one seed. `peak_bytes` is the peak memory of both.
    """

    names: tuple[str, str]
    measured: tuple[Measured, Measured]
    judgement: Judgement
    divergence: tuple[float, ...]
    divergence_of_seeds: tuple[float, ...]
    peak_bytes: int
    device: str

    def as_dict(self) -> dict[str, Any]:
        """The form of `compare --json`."""
        estimates = (self.judgement.baseline, self.judgement.candidate)
        sides = [
            {
                "name": name,
                "steps_per_second": each.speed,
                "program_memory_bytes": each.memory_bytes,
                "compile_seconds": each.compile_seconds,
                "skipped": each.skipped,
                "return": estimate.as_dict(),
                "return_iqm": each.interquartile.as_dict(),
                "return_by_seed": each.return_by_seed,
                "episodes": len(each.returns[0]),
            }
            for name, each, estimate in zip(self.names, self.measured, estimates, strict=True)
        ]
        return {
            "baseline": sides[0],
            "candidate": sides[1],
            **self.judgement.as_dict(),
            "seeds": self.judgement.seeds,
            "divergence": list(self.divergence),
            "divergence_of_seeds": list(self.divergence_of_seeds),
            "peak_bytes": self.peak_bytes,
            "device": self.device,
        }


def contender(config: RunConfig, name: str) -> Contender:
    """Builds the contender of a config. Nothing is compiled yet."""
    if config.greedy:
        raise ConfigError(
            f"--algorithm {config.algorithm}: compare draws the actions of both from their "
            "policies, and this one learns Q-values. Use another algorithm."
        )
    check_alone(config, "compare")
    trainer = compose(config)
    checked_memory(config, trainer)
    return Contender(name, trainer, lambda key: config.policy(key=key), config.goal)


def compare(
    baseline: Contender,
    candidate: Contender,
    *,
    seeds: Sequence[int],
    episodes: int,
    tolerance: float = 0.03,
    note: Callable[[str], None] = lambda message: None,
    on_progress: OnProgress = lambda finished, whole: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Trains two contenders, evaluates their policies, and judges the second against the first.

    They train alternately, one dispatch each, and alternate which goes first, so other work on the
    machine slows both equally. Both train from the same seeds. Both policies play the same games of
    the baseline's environment and sample their actions in float32.

    `tolerance` is the fraction of the baseline's return that the candidate may lose. `on_progress`
    is called with the amount done and the total, in environment steps or games.

    Raises:
        ConfigError: the two environments have different observations or actions.
    """
    contenders = (baseline, candidate)
    if _seen(baseline) != _seen(candidate):
        raise ConfigError(
            f"{baseline.name} and {candidate.name} train in environments with different "
            "observations or actions: their returns cannot be compared. Use the same game."
        )
    measured = []
    for each in contenders:
        note(f"compiling {each.name} ...")
        began = clock()
        each.start(seeds[0])
        each.trainer.compile()
        seconds = clock() - began
        measured.append(Measured(seconds, each.trainer.program_memory()))
    for number, seed in enumerate(seeds):
        note(f"training with seed {seed} ({number + 1} of {len(seeds)}) ...")
        _train(contenders, measured, seed, number % 2, note, on_progress, clock)
        note(f"playing {episodes:,} games with each policy ...")
        found = evaluate_all(
            {str(place): each.policies[-1] for place, each in enumerate(measured)},
            baseline.environment,
            episodes=episodes,
            key=jax.random.key(seed),
            on_progress=on_progress,
        )
        for place, result in enumerate(measured):
            result.returns.append(found[str(place)].values["return"])
    note("comparing the policies on the baseline's observations ...")
    one, other = measured
    return Comparison(
        names=(baseline.name, candidate.name),
        measured=(one, other),
        judgement=judge(one.returns, other.returns, tolerance=tolerance),
        divergence=_divergences(baseline, one.policies, other.policies, seeds),
        divergence_of_seeds=_divergences(baseline, one.policies[:-1], one.policies[1:], seeds[:-1]),
        peak_bytes=peak_memory(),
        device=describe_device(),
    )


def _seen(each: Contender) -> tuple[Any, ...]:
    spec = each.environment.spec
    leaves, structure = jax.tree.flatten(spec.observation)
    return spec.actions, structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _train(
    contenders: Sequence[Contender],
    measured: Sequence[Measured],
    seed: int,
    first: int,
    note: Callable[[str], None],
    on_progress: OnProgress,
    clock: Callable[[], float],
) -> None:
    """Trains both to the end, alternating dispatches, starting with `first`."""
    for each in contenders:
        each.start(seed)
    turn, said = first, clock()
    while any(each.missing() for each in contenders):
        for place in (turn % 2, 1 - turn % 2):
            each = contenders[place]
            if updates := each.missing():
                metrics = each.trainer.dispatch(min(updates, each.trainer.updates_per_dispatch))
                measured[place].steps_per_second.append(metrics.steps_per_second)
                measured[place].skipped += int(metrics.learning["skipped"])
        turn += 1
        on_progress(
            sum(each.steps for each in contenders),
            sum(each.steps + each.missing() * each.trainer.batch_size for each in contenders),
        )
        if clock() - said >= SECONDS_BETWEEN_NOTES:
            said = clock()
            note(", ".join(f"{each.name} at {each.steps:,} steps" for each in contenders))
    for each, result in zip(contenders, measured, strict=True):
        result.policies.append(each.trainer.policy)


def _divergences(
    baseline: Contender,
    policies: Sequence[ActorCritic],
    others: Sequence[ActorCritic],
    seeds: Sequence[int],
) -> tuple[float, ...]:
    return tuple(
        policy_divergence(policy, other, baseline.environment, key=jax.random.key(seed))
        for policy, other, seed in zip(policies, others, seeds, strict=True)
    )
