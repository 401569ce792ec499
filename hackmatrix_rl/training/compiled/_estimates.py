"""The cycles that a TPU's compiler estimates for each instruction, with its source line."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from hackmatrix_rl.training.compiled._collectives import instructions

_ESTIMATE = re.compile(
    r'%(?P<name>\S+) = (?P<result>.*?) [\w\-]+\(.*"estimated_cycles":"(?P<cycles>\d+)"'
)
_FRAME = re.compile(r"\bstack_frame_id=(\d+)")
_OPERATION = re.compile(r'\bop_name="([^"]*)"')


@dataclass(frozen=True)
class Estimate:
    """An instruction of a TPU program, and its estimated cost.

    Attributes:
        name: the name of the instruction.
        result: dtype, shape and layout of its result.
        cycles: the compiler's estimate for one execution.
        loops: iterations of the loops around it, outermost first; an unknown number is 1.
        operation: the JAX operation, with the functions around it.
        source: file and line of each stack frame, innermost first.
    """

    name: str
    result: str
    cycles: int
    loops: tuple[int, ...]
    operation: str
    source: tuple[str, ...]

    @property
    def total(self) -> int:
        """The cycles of all executions."""
        return self.cycles * math.prod(self.loops)


def estimates(program: str, *, within: str = "") -> list[Estimate]:
    """All instructions with an estimate, the most expensive first.

    Gathers, scatters, collectives and asynchronous copies have none.

    Args:
        program: text of the compiled program (`jax.stages.Compiled.as_text`).
        within: only files with this text in their path are in `Estimate.source`.
    """
    source = _sources(program, within)
    found = []
    for line, loops in instructions(program):
        if (match := _ESTIMATE.search(line)) is None:
            continue
        operation, frame = _OPERATION.search(line), _FRAME.search(line)
        found.append(
            Estimate(
                name=match["name"],
                result=match["result"],
                cycles=int(match["cycles"]),
                loops=loops,
                operation="" if operation is None else operation[1],
                source=() if frame is None else source(int(frame[1])),
            )
        )
    return sorted(found, key=lambda each: -each.total)


def estimated_cycles(program: str) -> int | None:
    """The cycles of a program on one device, estimated by its compiler; `None` without estimates.

    Only a TPU's compiler has estimates, and none for collectives and asynchronous copies. Every
    branch of a conditional counts; loops count as in `Collective.times`.

    Args:
        program: text of the compiled program (`jax.stages.Compiled.as_text`).
    """
    found = estimates(program)
    return sum(each.total for each in found) if found else None


def _sources(program: str, within: str) -> Callable[[int], tuple[str, ...]]:
    """A function from the number of a stack frame to its files and lines."""

    def table(title: str) -> dict[int, str]:
        rows = re.search(rf"^{title}\n((?:\d+ .*\n)*)", program, re.MULTILINE)
        pairs = (row.split(" ", 1) for row in (rows[1].splitlines() if rows else ()))
        return {int(number): row for number, row in pairs}

    def number(row: str, name: str) -> int:
        match = re.search(rf"\b{name}=(\d+)", row)
        return 0 if match is None else int(match[1])

    names, places, frames = table("FileNames"), table("FileLocations"), table("StackFrames")

    def source(frame: int) -> tuple[str, ...]:
        found = []
        while frame in frames:
            place = places[number(frames[frame], "file_location_id")]
            file = names[number(place, "file_name_id")].strip('"')
            if within in file:
                found.append(f"{file.rpartition('/')[2]}:{number(place, 'line')}")
            parent = number(frames[frame], "parent_frame_id")
            frame = 0 if parent == frame else parent  # the outermost is its own parent
        return tuple(found)

    return source
