"""The settings of population-based training (`--pbt-interval` and others), as arguments."""

from typing import Any

from hackmatrix_rl.system.errors import ConfigError, as_given, flag, shortened

PBT_ARGUMENTS = {
    "interval": "pbt_interval",
    "fraction": "pbt_fraction",
    "metric": "pbt_metric",
    "perturb": "pbt_perturb",
    "resample": "pbt_resample",
    "burn_in": "pbt_burn_in",
    "bounds": "pbt_bounds",
}
"""The arguments of `PopulationBasedTraining`, each with its setting."""


def parse_bounds(text: str | None) -> dict[str, tuple[float, float]]:
    """The bounds of each setting in a text such as `learning_rate=1e-5:1e-2,gamma=0.9:0.999`."""
    found: dict[str, tuple[float, float]] = {}
    for part in (text or "").split(",") if text else ():
        name, equals, numbers = (piece.strip() for piece in part.partition("="))
        try:
            low, high = map(float, numbers.split(":"))
            if not (equals and name and low < high) or name in found:
                raise ValueError
        except ValueError as error:
            raise ConfigError(
                f"--pbt-bounds {shortened(part.strip())}: expected a setting with its least and "
                "its largest value: learning_rate=1e-5:1e-2"
            ) from error
        found[name] = low, high
    return found


def check_exploits(config: Any) -> None:
    """Raises a ConfigError if settings of population-based training contradict each other."""
    if config.pbt_interval is None:
        for name, default in no_exploits(config).items():
            if (value := getattr(config, name)) != default:
                raise ConfigError(
                    f"{as_given(name, value)}: has no effect without population-based training. "
                    f"Add --pbt-interval 20, say, or leave {flag(name)} out."
                )
        return
    parse_bounds(config.pbt_bounds)
    if config.vary is None:
        raise ConfigError(
            f"--pbt-interval {config.pbt_interval}: a population changes the settings in which its "
            "trainings differ. Add --vary learning_rate=1e-4,3e-4,1e-3,3e-3, say, or leave "
            "--pbt-interval out."
        )


def exploit_arguments(config: Any) -> dict[str, Any]:
    """The arguments of `PopulationBasedTraining` by name."""
    found = {argument: getattr(config, name) for argument, name in PBT_ARGUMENTS.items()}
    return {**found, "bounds": parse_bounds(config.pbt_bounds)}


def no_exploits(config: Any) -> dict[str, Any]:
    """The defaults of these settings, which switch population-based training off."""
    fields = type(config).__dataclass_fields__
    return {name: fields[name].default for name in PBT_ARGUMENTS.values() if name in fields}
