"""Detection of forks. JAX does not work in a fork of a process that uses it."""

import os

from hackmatrix_rl.system._compatibility import backend_started
from hackmatrix_rl.system.errors import ConfigError

_user: int | None = None
"""The id of the process that used JAX before a fork. The fork inherits it."""


def _before_fork() -> None:
    global _user
    if _user is None and backend_started():
        _user = os.getpid()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before_fork)


def check_not_forked(what: str) -> None:
    """Raises a ConfigError in a fork of a process that used JAX, where JAX would deadlock."""
    if _user is not None and _user != os.getpid():
        raise ConfigError(
            f"{what}: this process is a fork of one that uses JAX, and JAX does not work in it. "
            'Start processes by "forkserver" or "spawn", as in '
            'gymnasium.make_vec(..., vector_kwargs={"context": "forkserver"}).'
        )
