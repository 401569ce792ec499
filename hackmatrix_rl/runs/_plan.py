"""The plan of a run: its work, memory and communication, known before it starts."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jaxtyping import PyTree

from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._preflight import doubts
from hackmatrix_rl.runs._words import network_in_words, plan_in_words
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system import Target, format_bytes, memory_limit
from hackmatrix_rl.system.errors import ConfigError, flag, instance
from hackmatrix_rl.training import Trainer, compiler_options
from hackmatrix_rl.training.compiled import (
    Collective,
    Launches,
    collectives,
    estimated_cycles,
    launches,
    program_bytes,
)
from hackmatrix_rl.training.sharding import (
    bytes_per_device,
    describe_mesh,
    devices_of_one,
    slices_of,
)


@dataclass(frozen=True)
class Plan:
    """The work and resources of a training on its devices. `print` shows it as `--dry-run` does.

    Attributes:
        training: games, steps and learning in words, by topic.
        network: the network in words, with its number of parameters.
        observation: each array of one observation.
        mesh: the mesh, as `hm.mesh` takes it.
        device: the kind of the devices.
        devices: number of devices.
        hosts: number of machines; each runs one process.
        slices: number of TPU slices.
        memory_limit: bytes of memory of one device; `None` if unknown.
        learner_bytes: bytes of policy, optimizer state and the rest of the learner on a device.
        games_bytes: bytes of the environments' states on a device.
        program_bytes: bytes that the program needs on a device, with both; `None` if the compiler
            has no figure.
        sent: the collectives of one update.
        cycles: cycles of a device for one update, as a TPU's compiler estimates them; `None` for
            other compilers.
        launches: the kernels and loops of a GPU's program; `None` on other devices.
        compile_seconds: how long compiling took.
    """

    training: Mapping[str, str]
    network: str
    observation: tuple[str, ...]
    mesh: str
    device: str
    devices: int
    hosts: int
    slices: int
    memory_limit: int | None
    learner_bytes: int
    games_bytes: int
    program_bytes: int | None
    sent: tuple[Collective, ...]
    cycles: int | None
    launches: Launches | None
    compile_seconds: float

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The plan in words, a line for each part."""
        rows = {
            "mesh": f"{self.mesh}: {self.devices} x {self.device}{self._on_hosts()}",
            **self.training,
            "network": self.network,
            "observation": ", ".join(self.observation),
            "memory": self._memory(),
            "communication": _in_words([each for each in self.sent if not each.across]),
            **({} if self.slices == 1 else {"across slices": self._across_slices()}),
            **({} if self.cycles is None else {"estimate": self._estimate()}),
            **({} if self.launches is None else {"launches": _launched(self.launches)}),
            "compiled": f"in {self.compile_seconds:.1f} s",
        }
        return [f"{name:>13}  {text}" for name, text in rows.items()]

    def _on_hosts(self) -> str:
        slices = f" of {self.slices} slices" if self.slices > 1 else ""
        # On GPUs, the launcher decides how many processes a host has.
        each = ", a process on each" if self.device.startswith("TPU") else ""
        return f" on {self.hosts} hosts{slices}{each}" if self.hosts > 1 else ""

    def _memory(self) -> str:
        if self.program_bytes is None:
            return "unknown: this compiler has no figure"
        rest = self.program_bytes - self.learner_bytes - self.games_bytes
        limit = "" if self.memory_limit is None else f" of {format_bytes(self.memory_limit)}"
        return (
            f"{format_bytes(self.program_bytes)}{limit} on each device: learner "
            f"{format_bytes(self.learner_bytes)}, games {format_bytes(self.games_bytes)}, "
            f"rollout and everything temporary {format_bytes(rest)}"
        )

    def _estimate(self) -> str:
        return (
            f"at least {self.cycles:,} cycles of a device an update, says the compiler: a loop "
            "without a fixed number of rounds counts once, and what is sent does not count"
        )

    def _across_slices(self) -> str:
        return f"{_in_words([each for each in self.sent if each.across])}, between the slices"


class _TooLargeError(Exception):
    """A program does not fit; the message says how much a device needs, of how much."""


def plan(trainer: Trainer[Any]) -> Plan:
    """Compiles the program of a trainer and returns its plan. Nothing is trained.

        there = hm.mesh("data=4", hm.target("v4-8").devices)
        print(hm.plan(hm.Trainer(algorithm_on(there))))

    Args:
        trainer: a trainer on devices of this machine, or of `hm.target`.

    Raises:
        TypeError: `trainer` is not a `Trainer`.
        ConfigError: the program does not fit into the memory of a device, or its compiler fails.
    """
    instance("trainer", trainer, Trainer, "hm.Trainer(algorithm)")
    training = {"steps": f"{trainer.batch_size:,} in an update"}
    try:
        return _read(trainer, training, type(trainer.policy).__name__)
    except _TooLargeError as error:
        raise ConfigError(
            f"this training does not fit: a device needs {error}. Use fewer environments, a larger "
            "grad_accum, a mesh with fsdp, or more devices."
        ) from error


def make_plan(
    config: RunConfig,
    trainer: Trainer[Any],
    target: Target | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """The plan of a run's trainer; its mesh is on `target`, or else on this machine."""
    training = plan_in_words(config, devices_of_one(trainer.mesh))
    if target is not None and (found := doubts(config, trainer)):  # no `preflight` reports them
        training = {**training, "doubtful": " ".join(found)}
    limit = None if target is None else target.memory
    try:
        made = _read(trainer, training, network_in_words(config), limit=limit, clock=clock)
    except _TooLargeError as error:
        smaller = " or ".join(map(flag, config.memory))
        where = "this run" if target is None else f"--target {target.name}:"
        more = "more devices" if target is None else "a larger --target"
        raise ConfigError(
            f"{where} does not fit: a device needs {error}. Use a smaller {smaller}, --grad-accum, "
            f"--remat full, a --mesh with fsdp, or {more}."
        ) from error
    return replace(made, network=f"{made.network}, {config.precision}")


def plan_for(config: RunConfig, target: Target, *, trust_code: bool = False) -> Plan:
    """The plan of one stage of a training on a TPU slice that is not attached."""
    return make_plan(config, compose(config, trust_code=trust_code, target=target), target)


def _read(
    trainer: Trainer[Any],
    training: Mapping[str, str],
    network: str,
    *,
    limit: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Compiles a trainer's program and reads its plan; `limit` is a device's memory in bytes."""
    mesh = trainer.mesh
    device = mesh.devices.flat[0]
    limit = memory_limit(device) if limit is None else limit
    began = clock()
    lowered = trainer.lower()
    try:
        compiled = lowered.compile(compiler_options(mesh))
    except jax.errors.JaxRuntimeError as error:
        # A TPU's compiler refuses a program that needs too much memory besides its arguments.
        sizes = re.search(r"\(([\d.]+[KMGT])\) exceeds[^(]*\(([\d.]+[KMGT])\)", str(error))
        if sizes is None:
            said = " ".join(str(error).split())[:300]
            raise ConfigError(
                f"the compiler for {device.device_kind} failed: {said}. Another "
                "--precision, --network or --remat may avoid it."
            ) from error
        raise _TooLargeError(f"{sizes[1]}B in addition to its state, of {sizes[2]}B") from error
    seconds = clock() - began
    needed = program_bytes(compiled)
    if limit is not None and needed is not None and needed > limit:
        raise _TooLargeError(f"{format_bytes(needed)} of {format_bytes(limit)}")
    program = compiled.as_text() or ""
    state = trainer.abstract_state()
    games = [getattr(state, name) for name in trainer.algorithm.reinit_fields if "." not in name]
    parameters = sum(leaf.size for leaf in jax.tree.leaves(parameters_of(trainer.policy)))
    slices = slices_of(mesh.devices.flat)
    return Plan(
        training=training,
        network=f"{network}, {parameters:,} parameters",
        observation=tuple(_described(trainer.environment.spec.observation)),
        mesh=describe_mesh(mesh.shape),
        device=device.device_kind,
        devices=mesh.size,
        hosts=len({each.process_index for each in mesh.devices.flat}),
        slices=slices,
        memory_limit=limit,
        learner_bytes=bytes_per_device(state) - bytes_per_device(games),
        games_bytes=bytes_per_device(games),
        program_bytes=needed,
        sent=tuple(collectives(program, mesh.size, slices)),
        cycles=estimated_cycles(program),
        launches=launches(program) if device.platform == "gpu" else None,
        compile_seconds=seconds,
    )


def _in_words(sent: Sequence[Collective]) -> str:
    if not sent:
        return "none"
    total = sum(each.sent_bytes for each in sent)
    times = sum(each.times for each in sent)
    kinds = sorted({each.kind for each in sent})
    return (
        f"each device sends {format_bytes(round(total))} an update, in {times:,} operations "
        f"({', '.join(kinds)})"
    )


def _launched(found: Launches) -> str:
    """The kernels and loops of a GPU's program, in words."""
    return (
        f"at least {found.kernels:,} kernels an update: a loop without a fixed number of rounds "
        f"counts once; {found.asking_loops} such loops ask the host after each round"
    )


def _described(observation: PyTree) -> list[str]:
    """Each array of one observation: `.grid uint32[36]`."""
    return [
        f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}".strip()
        for path, leaf in jax.tree.leaves_with_path(observation)
    ]
