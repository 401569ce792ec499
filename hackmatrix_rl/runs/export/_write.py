"""Exports an agent in one of the formats."""

import json
from pathlib import Path

from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.checkpoints import save_npz
from hackmatrix_rl.runs.export._contract import contract
from hackmatrix_rl.runs.export._formats import FORMATS
from hackmatrix_rl.runs.export._json import as_json
from hackmatrix_rl.runs.export._onnx import as_onnx
from hackmatrix_rl.runs.export._stablehlo import as_stablehlo, contract_file, terms
from hackmatrix_rl.system import typed_path, write_json, write_whole
from hackmatrix_rl.system.errors import ConfigError


def export_agent(
    agent: PolicyAgent,
    environment: Environment,
    path: str | Path,
    *,
    format: str,
    renew: str | None = None,
) -> list[Path]:
    """Writes an agent into a file, and its contract next to it as `FILE.contract.json`.

    A JSON file includes the contract. Nothing is written if the format refuses the agent.

    Args:
        agent: the agent, such as `hm.load("pretrained").agent()`.
        environment: the environment that it plays in.
        path: path of the file. An existing one is replaced.
        format: one of `FORMATS`.
        renew: the command that exports the agent again, for the contract of `stablehlo`, which
            later versions of JAX refuse.

    Returns:
        The written files.

    Raises:
        ConfigError: there is no such format, or it does not support this agent.
        OSError: a file cannot be written.
    """
    file = Path(typed_path(path))
    if format not in FORMATS:
        raise ConfigError(f"no format {format!r}; there is {', '.join(FORMATS)}")
    if format == "json":
        write_whole(file, json.dumps(as_json(agent, environment), allow_nan=False) + "\n")
        return [file]
    about = contract(agent, environment)
    if format == "stablehlo":
        write_whole(file, [as_stablehlo(agent, environment)])
        about["stablehlo"] = terms(renew)
    elif format == "onnx":
        write_whole(file, [as_onnx(agent, environment)])
    else:
        scale = IDENTITY_SCALE if agent.value_scale is None else agent.value_scale
        save_npz(agent.policy, file, value_scale=scale)
    beside = Path(contract_file(file))
    write_json(beside, about)
    return [file, beside]
