"""Two ways of training side by side: speed, memory, and what they learn."""

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
from hackmatrix_rl.config import (
    TrainConfig,
    build_policy,
)
from hackmatrix_rl.env import Environment
from hackmatrix_rl.errors import (
    ConfigError,
)
from hackmatrix_rl.evaluation import (
    Judgement,
    evaluate_all,
    judge,
    policy_divergence,
)
from hackmatrix_rl.runs._compose import (
    compose,
    run_keys,
)
from hackmatrix_rl.system import describe_device, peak_memory
from hackmatrix_rl.training import PPO, Trainer

SECONDS_BETWEEN_NOTES = 60


@dataclass(frozen=True)
class Contender:
    """One of two ways of training.

    Attributes:
        name: what to call it.
        trainer: trains; compiled once for all seeds.
        network: makes an untrained network from a key.
        total_timesteps: environment steps to train for.
    """

    name: str
    trainer: Trainer[PPO]
    network: Callable[[Key[Array, ""]], ActorCritic]
    total_timesteps: int

    @property
    def environment(self) -> Environment:
        """What it trains in."""
        return self.trainer.environment

    def start(self, seed: int) -> None:
        """Begins anew."""
        network_key, training_key = run_keys(seed)
        self.trainer.start(training_key, self.network(network_key))

    @property
    def steps(self) -> int:
        """Environment steps that were taken."""
        return int(self.trainer.state.env_steps)

    def missing(self) -> int:
        """Updates that are left to do."""
        return max(0, math.ceil((self.total_timesteps - self.steps) / self.trainer.batch_size))


@dataclass
class Measured:
    """What training one contender came to, over all seeds.

    Attributes:
        compile_seconds: of its program, from its modules to something that runs.
        memory_bytes: see `Trainer.program_memory`.
        steps_per_second: of each dispatch.
        skipped: gradient steps that were left out because they were not finite.
        returns: for each seed, the returns of the episodes of its evaluation.
        policies: for each seed, as it was at the end.
    """

    compile_seconds: float
    memory_bytes: int | None
    steps_per_second: list[float] = field(default_factory=list)
    skipped: int = 0
    returns: list[np.ndarray] = field(default_factory=list)
    policies: list[ActorCritic] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Median of the environment steps a second over all dispatches."""
        return statistics.median(self.steps_per_second)


@dataclass(frozen=True)
class Comparison:
    """Two contenders, the baseline first.

    Attributes:
        names: of both.
        measured: of both.
        judgement: whether the second is as good as the first.
        divergence: for each seed, KL(baseline || candidate) in nats on what the baseline sees.
        divergence_of_seeds: the same between each seed's baseline and the next seed's: how
            much chance alone makes of it. Empty for one seed.
        peak_bytes: most memory in use, both contenders together; see `usage.peak_memory`.
        device: what it was measured on, in words.
    """

    names: tuple[str, str]
    measured: tuple[Measured, Measured]
    judgement: Judgement
    divergence: tuple[float, ...]
    divergence_of_seeds: tuple[float, ...]
    peak_bytes: int
    device: str

    def as_dict(self) -> dict[str, Any]:
        """As `compare --json` prints it."""
        estimates = (self.judgement.baseline, self.judgement.candidate)
        sides = [
            {
                "name": name,
                "steps_per_second": each.speed,
                "program_memory_bytes": each.memory_bytes,
                "compile_seconds": each.compile_seconds,
                "skipped": each.skipped,
                "return": estimate.as_dict(),
                "return_by_seed": [float(values.mean()) for values in each.returns],
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


def contender(config: TrainConfig, name: str) -> Contender:
    """The contender that a config speaks of. Nothing is compiled yet.

    Raises:
        ConfigError: if it cannot be built.
    """
    trainer = compose(config, key=run_keys(config.seed)[0])
    spec = trainer.environment.spec

    def network(key: Key[Array, ""]) -> ActorCritic:
        return build_policy(config, spec, key=key)

    return Contender(name, trainer, network, config.total_timesteps)


def compare(
    baseline: Contender,
    candidate: Contender,
    *,
    seeds: Sequence[int],
    episodes: int,
    tolerance: float = 0.03,
    note: Callable[[str], None] = lambda message: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Trains two contenders side by side, plays with what they learned, and judges.

    They take turns at the device, dispatch by dispatch, and take turns at going first, so
    that whatever else keeps the machine busy hits both. Both train from the same seeds, and
    play the same games of the baseline's environment, drawing their actions in float32.

    Args:
        baseline: what the other is held against.
        candidate: is judged.
        seeds: of training; at least one.
        episodes: to play with each policy.
        tolerance: share of the baseline's return that the candidate may fall short by.
        note: takes a line about what is going on.
        clock: seconds since some moment.

    Raises:
        ConfigError: if they do not train in environments that look alike.
    """
    contenders = (baseline, candidate)
    if _seen(baseline) != _seen(candidate):
        raise ConfigError(
            f"{baseline.name} and {candidate.name} train in environments that do not look alike: "
            "their returns cannot be compared. Use the same game."
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
        _train(contenders, measured, seed, number % 2, note, clock)
        note(f"playing {episodes:,} games with each policy ...")
        found = evaluate_all(
            {str(place): each.policies[-1] for place, each in enumerate(measured)},
            baseline.environment,
            episodes=episodes,
            key=jax.random.key(seed),
        )
        for place, result in enumerate(measured):
            result.returns.append(found[str(place)].values["return"])
    note("comparing what the policies do where the baseline goes ...")
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
    """Number of actions, and shapes of what is observed."""
    spec = each.environment.spec
    leaves, structure = jax.tree.flatten(spec.observation)
    return spec.num_actions, structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _train(
    contenders: Sequence[Contender],
    measured: Sequence[Measured],
    seed: int,
    first: int,
    note: Callable[[str], None],
    clock: Callable[[], float],
) -> None:
    """Trains each to its end, one dispatch of each in turn; `first` begins."""
    for each in contenders:
        each.start(seed)
    turn, said = first, clock()
    while any(each.missing() for each in contenders):
        for place in (turn % 2, 1 - turn % 2):
            each = contenders[place]
            if updates := each.missing():
                metrics = each.trainer.dispatch(min(updates, each.trainer.updates_per_dispatch))
                measured[place].steps_per_second.append(metrics.steps_per_second)
        turn += 1
        if clock() - said >= SECONDS_BETWEEN_NOTES:
            said = clock()
            note(", ".join(f"{each.name} at {each.steps:,} steps" for each in contenders))
    for each, result in zip(contenders, measured, strict=True):
        result.policies.append(each.trainer.policy)
        result.skipped += int(each.trainer.state.learner.skipped)


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
