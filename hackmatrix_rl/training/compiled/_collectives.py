"""Facts about a compiled program: its collectives, its cost on an accelerator and its memory."""

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
# What slices of TPUs send each other is sent by their hosts; each device gives its part of it.
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
        devices: number of devices in a group; of slices, if it goes across them.
        times: how often the program runs it. A loop counts all its rounds if their number stands
            in the program, otherwise one (the updates of a dispatch).
        across: whether it goes across slices of TPUs, over the network of the data centre.
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
        """Bytes that each device sends, over all times, if the devices form a ring.

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
    """The collective operations of the text of a compiled program (`Compiled.as_text`).

    A program that is only lowered has no collectives yet. `devices` is the number of devices that
    run it, on `slices` slices of TPUs.
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
    """What a GPU's program asks of the machine.

    Attributes:
        kernels: how often it starts a kernel, or a library's; loops count as for
            `Collective.times`.
        asking_loops: loops without a fixed number of rounds. After each of their rounds the host
            reads whether another follows.
    """

    kernels: int
    asking_loops: int


def launches(program: str) -> Launches:
    """The launches of a program that a GPU's compiler made.

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
    """The line of each instruction, and how often the program runs it."""
    found = instructions(program, into_fusions=into_fusions)
    return ((line, math.prod(loops)) for line, loops in found)


def instructions(
    program: str, *, into_fusions: bool = True
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The line of each instruction of a program, and the rounds of the loops around it.

    The outermost loop is first. Rounds whose number is not known are 1. Without `into_fusions`,
    those within a fusion are left out.
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
    """The rounds of a loop, and 1 for any other instruction or for an unknown number.

    The TPU's compiler does not write down what it knows. There, a loop that runs while a counter is
    below a constant counts from 0, as scans do.
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
    """The number of devices in a group, in each notation of XLA."""
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
    """Bytes that a compiled program needs on each device, by the compiler's own figures.

    They cover arguments, results and temporary arrays. `None` if the backend has no figures.
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
