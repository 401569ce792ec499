"""The plan of a run: what it would do and need, without doing it."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import PyTree

from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.config import RunConfig
from hackmatrix_rl.errors import ConfigError, flag
from hackmatrix_rl.runs._compose import compose, run_keys
from hackmatrix_rl.system import Target, format_bytes
from hackmatrix_rl.training import Trainer, compiler_options
from hackmatrix_rl.training.compiled import Collective, collectives, estimated_cycles, program_bytes
from hackmatrix_rl.training.sharding import bytes_per_device, describe_mesh


@dataclass(frozen=True)
class Plan:
    """The plan of a run. Bytes are those of one device.

    `learner_bytes` are those of policy, optimizer state and the rest of the learner, `actors_bytes`
    those of environments, and `program_bytes` those of the compiled program with both; `None` if
    the compiler has no figure. `sent` are the collectives of one update, and `cycles` what a TPU's
    compiler estimates for it.
    """

    config: RunConfig
    mesh: str
    device: str
    devices: int
    hosts: int
    memory_limit: int | None
    parameters: int
    observation: tuple[str, ...]
    learner_bytes: int
    actors_bytes: int
    program_bytes: int | None
    sent: tuple[Collective, ...]
    cycles: int | None
    compile_seconds: float

    def lines(self) -> list[str]:
        """The plan in words, a line for each part."""
        rows = {
            "mesh": f"{self.mesh}: {self.devices} x {self.device}{self._on_hosts()}",
            **self.config.plan(self.devices),
            "network": f"{self.config.named_network}, {self.parameters:,} parameters, "
            f"{self.config.precision}",
            "observation": ", ".join(self.observation),
            "memory": self._memory(),
            "communication": self._communication(),
            **({} if self.cycles is None else {"estimate": self._estimate()}),
            "compiled": f"in {self.compile_seconds:.1f} s",
        }
        return [f"{name:>13}  {text}" for name, text in rows.items()]

    def _on_hosts(self) -> str:
        return f" on {self.hosts} hosts, a process on each" if self.hosts > 1 else ""

    def _memory(self) -> str:
        if self.program_bytes is None:
            return "unknown: this compiler has no figure"
        rest = self.program_bytes - self.learner_bytes - self.actors_bytes
        limit = "" if self.memory_limit is None else f" of {format_bytes(self.memory_limit)}"
        return (
            f"{format_bytes(self.program_bytes)}{limit} on each device: learner "
            f"{format_bytes(self.learner_bytes)}, games {format_bytes(self.actors_bytes)}, "
            f"rollout and everything temporary {format_bytes(rest)}"
        )

    def _estimate(self) -> str:
        return (
            f"at least {self.cycles:,} cycles of a device an update, says the compiler: a loop "
            "without a fixed number of rounds counts once, and what is sent does not count"
        )

    def _communication(self) -> str:
        if not self.sent:
            return "none"
        total = sum(each.sent_bytes for each in self.sent)
        times = sum(each.times for each in self.sent)
        kinds = sorted({each.kind for each in self.sent})
        return (
            f"each device sends {format_bytes(round(total))} an update, in {times:,} operations "
            f"({', '.join(kinds)})"
        )


def make_plan(
    config: RunConfig,
    trainer: Trainer[Any],
    target: Target | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Compiles a run's program and reads its plan. No environment starts.

    A `target` is where the trainer's mesh is, if it is not here.

    Raises:
        ConfigError: the program does not fit into the memory of the target's devices.
    """
    began = clock()
    lowered = trainer.lower()
    try:
        compiled = lowered.compile(compiler_options(trainer.mesh))
    except jax.errors.JaxRuntimeError as error:
        told = re.search(r"\(([\d.]+[KMGT])\) exceeds[^(]*\(([\d.]+[KMGT])\)", str(error))
        if target is None or told is None:
            raise
        needs = f"{told[1]}B beside its state, of {told[2]}B"
        raise _too_large(config, target, needs) from error
    seconds = clock() - began
    state = trainer.abstract_state()
    device = trainer.mesh.devices.flat[0]
    # Some backends have no figure for their memory, and some compilers none for a program.
    memory = {"bytes_limit": target.memory} if target else device.memory_stats()
    limit = (memory or {}).get("bytes_limit")
    program = compiled.as_text() or ""
    needed = program_bytes(compiled)
    if target is not None and needed is not None and needed > target.memory:
        needs = f"{format_bytes(needed)} of {format_bytes(target.memory)}"
        raise _too_large(config, target, needs)
    games = [getattr(state, name) for name in trainer.algorithm.resettable if "." not in name]
    return Plan(
        config=config,
        mesh=describe_mesh(trainer.mesh.shape),
        device=device.device_kind,
        devices=trainer.mesh.size,
        hosts=len({each.process_index for each in trainer.mesh.devices.flat}),
        memory_limit=limit,
        parameters=sum(leaf.size for leaf in jax.tree.leaves(parameters_of(trainer.policy))),
        observation=tuple(_described(trainer.environment.spec.observation)),
        learner_bytes=bytes_per_device(state) - bytes_per_device(games),
        actors_bytes=bytes_per_device(games),
        program_bytes=needed,
        sent=tuple(collectives(program, trainer.mesh.size)),
        cycles=estimated_cycles(program),
        compile_seconds=seconds,
    )


def plan_for(config: RunConfig, target: Target, *, trust_code: bool = False) -> Plan:
    """The plan of one stage of a training on a slice that is not here.

    Raises:
        ConfigError: it cannot work, or does not fit there.
    """
    key = run_keys(config.seed)[0]
    return make_plan(config, compose(config, key=key, trust_code=trust_code, target=target), target)


def _too_large(config: RunConfig, target: Target, needs: str) -> ConfigError:
    smaller = " or ".join(map(flag, config.memory))
    return ConfigError(
        f"--target {target.name}: does not fit: a device needs {needs}. Use a smaller {smaller}, "
        "--grad-accum, --remat full, a --mesh with fsdp, or a larger slice."
    )


def _described(observation: PyTree) -> list[str]:
    """Each array of one observation: `.grid uint32[36]`."""
    return [
        f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}".strip()
        for path, leaf in jax.tree.leaves_with_path(observation)
    ]
