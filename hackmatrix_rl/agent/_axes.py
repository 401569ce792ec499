"""Which axis of a module's fields is that of the environments.

A field says so where it is defined: sharding and minibatches read it there.
"""

import dataclasses

import equinox as eqx

_AXIS = "environments"

PER_ENVIRONMENT = {_AXIS: 0}
"""Metadata of a field whose leaves are `[num_envs, ...]`."""
SHARED = {_AXIS: None}
"""Metadata of a field without an axis of environments."""


def environment_axes(kind: type[eqx.Module], *, default: int) -> dict[str, int | None]:
    """The axis of environments of each field; `None` for one without.

    Args:
        kind: a class of modules.
        default: the axis of fields that say nothing.
    """
    return {each.name: each.metadata.get(_AXIS, default) for each in dataclasses.fields(kind)}
