"""Which settings a resumed run keeps: those that decide what it has learned."""

from collections.abc import Mapping
from typing import Any

from etils import epath

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.checkpoints import read_arrays
from hackmatrix_rl.config import RunConfig, check_settings, settings_of
from hackmatrix_rl.errors import ConfigError, as_given, flag


def check_unchanged(run: object, stored: RunConfig, changes: Mapping[str, Any]) -> None:
    """Refuses changes of a run after which what it learned would mean something else.

    The arrays of a checkpoint fit many settings, so nothing else notices most of these changes.

    Args:
        run: its folder, or what to call it.
        stored: its settings.
        changes: settings that are to differ from them.

    Raises:
        ConfigError: one of them may not. The message names its flag.
    """
    if changes.get("algorithm", stored.algorithm) != stored.algorithm:
        raise ConfigError(
            f"--algorithm {changes['algorithm']}: the run {run} is by --algorithm "
            f"{stored.algorithm}, and a run cannot change its algorithm. Leave --algorithm "
            "out, or begin a new run."
        )
    changes = {name: value for name, value in changes.items() if name != "algorithm"}
    check_settings(stored, changes, f"as the run {run} is")
    stored.check_changes(run, changes)


def check_network(
    run: object, checkpoint: epath.Path, stored: RunConfig, config: RunConfig, policy: ActorCritic
) -> None:
    """Refuses changed settings that make another network than a checkpoint's.

    A width that is the network's default may be written out: only the arrays decide.

    Args:
        run: the folder of the run.
        checkpoint: that it goes on from.
        stored: the settings of the run.
        config: the same with the changes.
        policy: the network of `config`.

    Raises:
        ConfigError: the arrays do not fit. The message names the flags.
    """
    changed = [
        each.name
        for each in settings_of(stored)
        if each.metadata["arrays"] and getattr(config, each.name) != getattr(stored, each.name)
    ]
    if not changed or read_arrays(checkpoint, "policy").mismatch(policy) is None:
        return
    asked, was = (
        ", ".join(as_given(name, getattr(settings, name)) for name in changed)
        for settings in (config, stored)
    )
    raise ConfigError(
        f"{asked}: the run {run} was trained with {was}, which makes another network. "
        f"Leave {', '.join(map(flag, changed))} out, or begin a new run."
    )
