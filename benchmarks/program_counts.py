"""Counts of the instructions of a compiled program, independent of the machine's speed."""

import re
from dataclasses import dataclass

import jax

_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*?[\]})] (?P<name>[\w\-]+)\(", re.MULTILINE)
_ALIASES = re.compile(r"\{[\d, ]*\}: \((\d+), \{")
_PARAMETER = re.compile(r"= (?P<type>\S+) parameter\((?P<number>\d+)\)")


@dataclass(frozen=True)
class ProgramCounts:
    """Counts of a compiled program.

    A loop's body counts once, for any number of rounds.

    Attributes:
        flops: floating-point and integer operations, by the compiler's estimate.
        bytes_accessed: bytes read and written, by the compiler's estimate.
        instructions: instructions of all computations, also inside fusions.
        fusions: loops of generated code with one or a few result arrays.
        loops: `while` loops.
        copies: copies of whole arrays.
    """

    flops: float
    bytes_accessed: float
    instructions: int
    fusions: int
    loops: int
    copies: int


def program_counts(program: jax.stages.Compiled) -> ProgramCounts:
    """Counts the parts of a compiled program."""
    cost = program.cost_analysis() or {}
    names = _INSTRUCTION.findall(program.as_text() or "")
    return ProgramCounts(
        flops=float(cost.get("flops", 0)),
        bytes_accessed=float(cost.get("bytes accessed", 0)),
        instructions=len(names),
        fusions=names.count("fusion"),
        loops=names.count("while"),
        copies=names.count("copy") + names.count("copy-start"),
    )


def copies_of(program: str, array: jax.ShapeDtypeStruct) -> int:
    """How often a program copies arrays of a shape and dtype.

    Args:
        program: text of the compiled program (`jax.stages.Compiled.as_text`).
        array: the shape and dtype.
    """
    copied = re.compile(rf"= {re.escape(_hlo_type(array))}\S* copy(?:-start)?\(")
    return len(copied.findall(program))


def updated_in_place(program: str, array: jax.ShapeDtypeStruct) -> bool:
    """Whether all arguments of a shape and dtype donate their memory to a result.

    Args:
        program: text of the compiled program (`jax.stages.Compiled.as_text`).
        array: the shape and dtype.

    Raises:
        ValueError: the program has no such argument.
    """
    entry = program[program.index("\nENTRY ") :]
    wanted = _hlo_type(array)
    numbers = {
        found["number"] for found in _PARAMETER.finditer(entry) if found["type"].startswith(wanted)
    }
    if not numbers:
        raise ValueError(f"the program has no argument {wanted}")
    header = program.partition("\n")[0]
    return numbers <= set(_ALIASES.findall(header))


def _hlo_type(array: jax.ShapeDtypeStruct) -> str:
    """A shape and dtype in XLA's notation: `u8[1024,16,600]`."""
    kind = {"u": "u", "i": "s", "f": "f", "b": "pred"}[array.dtype.kind]
    bits = "" if kind == "pred" else str(8 * array.dtype.itemsize)
    return f"{kind}{bits}[{','.join(map(str, array.shape))}]"
