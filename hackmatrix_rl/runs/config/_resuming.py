"""The settings that a resumed run must keep: those of `option(..., resume="why")`."""

from collections.abc import Mapping
from typing import Any

from hackmatrix_rl.runs.config._options import settings_of
from hackmatrix_rl.runs.config._run_fields import RunFields
from hackmatrix_rl.system.errors import ConfigError, as_given, flag


def check_kept(config: RunFields, run: object, changes: Mapping[str, Any]) -> None:
    """Raises a ConfigError that names the flag of the first setting that must stay."""
    settings = settings_of(config)
    starts_from_weights = "init" in {each.name for each in settings}
    for each in settings:
        was, why = getattr(config, each.name), each.metadata["resume"]
        if why and changes.get(each.name, was) != was:
            given = as_given(each.name, changes[each.name])
            weights = "" if each.metadata["alike"] else f" from its weights: --init {run}"
            begin = f"begin a new run{weights if starts_from_weights else ''}"
            raise ConfigError(
                f"{given}: the run {run} was trained with {as_given(each.name, was)}, and {why}"
                f". Leave {flag(each.name)} out, or {begin}."
            )
