"""Analysis of the text of a compiled program: collectives, kernel launches and memory."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import jax

_KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "ragged-all-to-all",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
# `f32[8]{0} all-reduce(`; an asynchronous one is `-start(`, and later `-done(`.
_COLLECTIVE = re.compile(rf"= (?P<result>.*?) (?P<kind>{'|'.join(_KINDS)})(?P<start>-start)?\(")
# Hosts send the data between slices of TPUs; each device provides its part.
_ACROSS = re.compile(
    r"= \((?P<result>.*?), u32\[\].* send\(.*_xla_megascale_transfer_type=\"(?P<kind>\w+)\""
)
_HEADER = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations|called_computations|"
    r"true_computation|false_computation)=\{?(%[\w.\-]+(?:, ?%[\w.\-]+)*)"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"\bcondition=%?([\w.\-]+)")
_BELOW = re.compile(r"ROOT .* compare\(%[\w.\-]+, %([\w.\-]+)\), direction=LT")
_FUSION = re.compile(r" fusion\(")
_KERNEL = re.compile(
    r"[\]})] (?:fusion|custom-call|copy|copy-start|sort|scatter|dot|convolution)\("
)
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """One collective operation of a compiled program.

    Attributes:
        kind: `all-reduce`, `all-gather` ...
        arrays: dtype and shape of each result on a device.
        devices: number of devices in a group; number of slices if `across`.
        times: number of executions. A loop counts all its iterations if the program has their
            number, otherwise one (the updates of a dispatch).
        across: whether it is between slices of TPUs, over the data center network.
    """

    kind: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    devices: int
    times: int
    across: bool = False

    @property
    def result_bytes(self) -> int:
        """Bytes of one result on each device."""
        return sum(_item_bytes(dtype) * math.prod(shape) for dtype, shape in self.arrays)

    @property
    def sent_bytes(self) -> float:
        """Bytes that each device sends in all executions, with ring algorithms.

        Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
        operations in MPICH".
        """
        others = self.devices - 1
        factor = {
            "all-reduce": 2 * others / self.devices,
            "all-gather": others / self.devices,
            "reduce-scatter": float(others),
            "all-to-all": others / self.devices,
            "ragged-all-to-all": others / self.devices,
        }.get(self.kind, 1.0)
        return factor * self.result_bytes * self.times


def collectives(program: str, devices: int, slices: int = 1) -> list[Collective]:
    """The collective operations in the text of a compiled program (`Compiled.as_text`).

    A lowered program that is not compiled has no collectives. `devices` is the number of devices
    that run the program, on `slices` slices of TPUs.
    """
    found = []
    for line, times in _instructions(program):
        if (match := _COLLECTIVE.search(line)) is not None:
            arrays = _results(match["result"], match["kind"], bool(match["start"]))
            found.append(Collective(match["kind"], arrays, _group_size(line, devices), times))
        elif (match := _ACROSS.search(line)) is not None:
            kind = match["kind"].lower().replace("_", "-")
            arrays = _results(match["result"], kind, False)
            found.append(Collective(kind, arrays, slices, times, across=True))
    return found


@dataclass(frozen=True)
class Launches:
    """The kernel launches of a GPU program.

    Attributes:
        kernels: number of launches of kernels, including launches by libraries; loops count as in
            `Collective.times`.
        asking_loops: number of loops without a fixed number of iterations. After each iteration,
            the host reads the condition.
    """

    kernels: int
    asking_loops: int


def launches(program: str) -> Launches:
    """The kernel launches of a program that is compiled for a GPU.

    Args:
        program: text of the compiled program (`jax.stages.Compiled.as_text`).
    """
    lines, _ = _computations(program)
    kernels = sum(
        times
        for line, times in _instructions(program, into_fusions=False)
        if _KERNEL.search(line) is not None
    )
    loops = [line for each in lines.values() for line in each if " while(" in line]
    return Launches(kernels, sum(_TRIPS.search(line) is None for line in loops))


def _instructions(program: str, *, into_fusions: bool = True) -> Iterator[tuple[str, int]]:
    """The line of each instruction, and its number of executions."""
    found = instructions(program, into_fusions=into_fusions)
    return ((line, math.prod(loops)) for line, loops in found)


def instructions(
    program: str, *, into_fusions: bool = True
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The line of each instruction of a program, and the iterations of the loops around it.

    The outermost loop is first. An unknown number of iterations counts as 1. Without
    `into_fusions`, instructions within a fusion are left out.
    """
    lines, entry = _computations(program)

    def walk(name: str, loops: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        for line in lines[name]:
            yield line, loops
            if not into_fusions and _FUSION.search(line) is not None:
                continue
            inside = (*loops, _rounds(line, lines)) if " while(" in line else loops
            for called in _called(line):
                yield from walk(called, inside)

    return walk(entry, ())


def _rounds(line: str, lines: dict[str, list[str]]) -> int:
    """The iterations of a loop; 1 for other instructions and for an unknown number.

    The TPU's compiler does not write `known_trip_count`. There, a loop with the condition
    `counter < constant` is taken to count from 0, like a scan.
    """
    if (known := _TRIPS.search(line)) is not None:
        return int(known[1])
    if (condition := _CONDITION.search(line)) is None:
        return 1
    text = "\n".join(lines.get(condition[1], ()))
    if (last := _BELOW.search(text)) is None:
        return 1
    bound = re.search(rf"%{re.escape(last[1])} = s32\[\]\S* constant\((\d+)\)", text)
    return 1 if bound is None else int(bound[1])


def _computations(program: str) -> tuple[dict[str, list[str]], str]:
    """The lines of each computation by name, and the name of the entry computation."""
    lines: dict[str, list[str]] = {}
    entry, current = "", None
    for line in program.splitlines():
        header = _HEADER.match(line)
        if header is not None and not line.startswith("HloModule"):
            current = lines.setdefault(header["name"], [])
            entry = header["name"] if header["entry"] else entry
        elif current is not None:
            current.append(line)
    return lines, entry


def _called(line: str) -> Iterator[str]:
    for names in _CALLED.findall(line):
        for name in names.split(","):
            yield name.strip().removeprefix("%")


def _results(text: str, kind: str, started: bool) -> tuple[tuple[str, tuple[int, ...]], ...]:
    arrays = [
        (dtype, tuple(int(length) for length in shape.split(",") if length))
        for dtype, shape in _ARRAY.findall(text)
    ]
    if started and kind != "all-reduce":  # inputs come before results
        arrays = arrays[len(arrays) // 2 :]
    return tuple(arrays)


def _group_size(line: str, devices: int) -> int:
    """The number of devices in a group, from each notation of XLA.

    `{{0,1},{2,3}}`, `[2,2]<=[4]` and `mesh['x'=2,'y'=2], ... {'y'}` are groups of 2.
    """
    if (lists := re.search(r"replica_groups=\{\{([\d,]+)\}", line)) is not None:
        return len(lists[1].split(","))
    if (table := re.search(r"replica_groups=\[\d+,(\d+)\]", line)) is not None:
        return int(table[1])
    if (mesh := re.search(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", line)) is not None:
        lengths = {axis: int(length) for axis, length in re.findall(r"'(\w+)'=(\d+)", mesh[1])}
        return math.prod(lengths[axis] for axis in re.findall(r"'(\w+)'", mesh[2]))
    return devices


def _item_bytes(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return 1 if bits is None else -(-int(bits[0]) // 8)  # `pred` takes a byte


def program_bytes(program: jax.stages.Compiled) -> int | None:
    """Bytes of arguments, results and temporary arrays on each device, from the compiler.

    `None` if the backend does not report them.
    """
    found = program.memory_analysis()
    if found is None:
        return None
    return int(
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        - found.alias_size_in_bytes
        + found.temp_size_in_bytes
    )
