"""Exports an agent as StableHLO with `jax.export`, and reads one; only JAX runs it."""

import shlex
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import jax
from etils import epath
from jax import export

from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.export._program import program_of
from hackmatrix_rl.system import exports_load_until, read_bounded, read_json, require
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, shortened

PLATFORMS = ("cpu", "cuda", "tpu")
_MOST_BYTES = 2**32
_EXPORT = ("hackmatrix-rl", "export")
_RUNS_CODE = ("--trust-code", "--agent")  # a contract from elsewhere must not suggest these
_LONGEST_COMMAND = 1000


def as_stablehlo(agent: PolicyAgent, environment: Environment) -> bytes:
    """The network as a program for batches of any size.

    Its arguments are the arrays of the observation in the order of the contract, the mask, and the
    carry of a network with memory. It returns the masked logits, the value, and the next carry.
    """
    require("flatbuffers", extra="export", caller="this format")
    function, shapes = program_of(agent, environment).batched()
    program = export.export(jax.jit(function), platforms=PLATFORMS)(*shapes)
    return bytes(program.serialize())


def terms(renew: str | None) -> dict[str, str]:
    """For the contract: the versions that wrote the program, until when it loads, what renews it.

    `renew` is the command that exports the agent again.
    """
    found = {name: version(name) for name in ("jax", "jaxlib")}
    found["loads_until"] = exports_load_until().isoformat()
    return found if renew is None else {**found, "renew": renew}


def read_stablehlo(path: epath.PathLike) -> export.Exported:
    """Reads an agent that was exported as StableHLO; `jax.jit(exported.call)` plays it.

    `jax.export.deserialize` alone reads it, too. This says what to do where JAX refuses an export,
    from the contract beside it.

    Args:
        path: the file.

    Raises:
        ConfigError: the file cannot be read, or this version of JAX refuses it.
    """
    require("flatbuffers", extra="export", caller="this format")
    try:
        content = read_bounded(path, _MOST_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{path}: does not exist") from None
    except DamagedFileError as error:
        raise ConfigError(f"{path}: {error}.") from error
    try:
        return export.deserialize(bytearray(content))
    except Exception as error:  # flatbuffers has no base class of errors
        raise ConfigError(_refused(path)) from error


def contract_file(path: epath.PathLike) -> epath.Path:
    """The file of the contract of an export."""
    file = epath.Path(path)
    return file.with_name(f"{file.name}.contract.json")


def _refused(path: epath.PathLike) -> str:
    """What to do about an export that JAX refuses, in one line, by the `terms` of its contract."""
    stored: Any = None
    with suppress(DamagedFileError):  # says less
        stored = (read_json(contract_file(path)) or {}).get("stablehlo")
    fields = stored.items() if isinstance(stored, dict) else ()
    known = {name: value for name, value in fields if isinstance(value, str)}
    wrote = f"JAX {shortened(known['jax'])}" if "jax" in known else "an unknown version"
    until = known.get("loads_until")
    window = "" if until is None else f", which releases of JAX load until {shortened(until)}"
    return (
        f"{path}: JAX {jax.__version__} refuses this export of {wrote}{window}. Export the agent "
        f"again: {_command(known.get('renew'))}"
    )


def _command(stored: str | None) -> str:
    """The stored command that renews an export, quoted; a general one if it is anything else."""
    general = "hackmatrix-rl export AGENT --format stablehlo --output FILE"
    if stored is None or not stored.isprintable() or len(stored) > _LONGEST_COMMAND:
        return general
    try:
        words = shlex.split(stored)
    except ValueError:
        return general
    odd = any(word.startswith(_RUNS_CODE) for word in words)
    return general if odd or tuple(words[:2]) != _EXPORT else shlex.join(words)
