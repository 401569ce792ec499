"""Checks that the configs of all algorithms share."""

from collections.abc import Mapping

from hackmatrix_rl.agent.precision import MixedPrecision, PrecisionPolicy, parse_policy, precision
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.errors import ConfigError, flag, in_flags, refusing
from hackmatrix_rl.system import check_path
from hackmatrix_rl.training.sharding import parse_mesh


def check_folders(config: RunConfig) -> None:
    """Raises a ConfigError if a folder's name cannot be one."""
    for name in ("run_dir", "checkpoint_dir"):
        check_path(getattr(config, name), flag(name))


def check_rate(config: RunConfig, *, schedule: str = "") -> None:
    """Raises a ConfigError if the rate is 0, or also scheduled by another setting."""
    if config.learning_rate == 0:
        raise ConfigError("--learning-rate 0.0 is too small. Use more than 0.")
    if isinstance(config.learning_rate, str) and schedule == "constant":
        raise ConfigError(
            f"--learning-rate {config.learning_rate} is a schedule already. Leave "
            "--learning-rate-schedule out."
        )


def check_mesh_text(text: str) -> Mapping[str, int] | None:
    """The lengths of a mesh, without looking for devices; `None` for `auto`.

    Raises:
        ConfigError: the text describes no mesh.
    """
    with in_flags():
        return parse_mesh(text)


def check_precision(config: RunConfig) -> None:
    """Raises a ConfigError if a precision policy does not exist."""
    try:
        parse_policy(config.precision)
    except ValueError as error:
        said = f"{error}" if str(error).endswith("?") else f"{error}."
        raise ConfigError(f"--precision {config.precision}: {said}") from error
    with refusing(f"--precision-parts {config.precision_parts}: "):
        computes = precision(config.precision, config.precision_table)
    check_platform(computes, config.device)


def check_platform(computes: PrecisionPolicy, platform: str) -> None:
    """Raises a ConfigError if a kind of device does not compute in a dtype of the policy."""
    if platform == "tpu" and isinstance(computes, MixedPrecision) and computes.scales:
        raise ConfigError(
            "--precision (or --precision-parts) asks for f16, in which no TPU computes. Use "
            "--precision bf16 there, or --device gpu or cpu."
        )
