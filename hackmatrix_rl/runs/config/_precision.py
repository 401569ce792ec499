"""The number formats of a config."""

from hackmatrix_rl.agent import precision as formats
from hackmatrix_rl.runs.config._run_fields import RunFields
from hackmatrix_rl.system.errors import ConfigError, refusing


def precision_of(config: RunFields) -> "formats.PrecisionPolicy":
    """The precision policy of `--precision` and `--precision-parts`."""
    try:
        formats.parse_policy(config.precision)
    except ValueError as error:
        said = f"{error}" if str(error).endswith("?") else f"{error}."
        raise ConfigError(f"--precision {config.precision}: {said}") from error
    parts = config.precision_parts
    with refusing(f"--precision-parts {parts}: "):
        return formats.precision(
            config.precision, {} if parts is None else formats.parse_parts(parts)
        )


def check_platform(computes: "formats.PrecisionPolicy", platform: str) -> None:
    """Raises a ConfigError if a platform cannot compute in a dtype of the policy."""
    if platform == "tpu" and isinstance(computes, formats.MixedPrecision) and computes.scales:
        raise ConfigError(
            "--precision (or --precision-parts) has f16, which no TPU supports. Use "
            "--precision bf16 there, or --device gpu or cpu."
        )
