"""This package and others: environments of theirs in this package, and the game in theirs."""

from typing import Any

from ._extras import require as require
from ._from_gymnasium import GymnasiumGames as GymnasiumGames
from ._from_gymnasium import from_gymnasium as from_gymnasium
from ._from_gymnasium import from_neurogym as from_neurogym
from ._from_jax import GymnaxGame as GymnaxGame
from ._from_jax import PgxGame as PgxGame
from ._from_jax import from_gymnax as from_gymnax
from ._from_jax import from_pgx as from_pgx
from ._from_jax import to_gymnax as to_gymnax


def __getattr__(name: str) -> Any:
    """`HackEnv`, whose module imports gymnasium."""
    if name != "HackEnv":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("gymnasium", extra="gymnasium", caller="HackEnv")
    from ._hack_env import HackEnv

    return HackEnv
