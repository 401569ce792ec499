"""This package and others: environments of theirs in this package, and the game in theirs."""

from hackmatrix_rl.adapters._extras import require
from hackmatrix_rl.adapters._from_gymnasium import GymnasiumGames, from_gymnasium, from_neurogym
from hackmatrix_rl.adapters._from_jax import GymnaxGame, PgxGame, from_gymnax, from_pgx, to_gymnax

__all__ = [
    "GymnasiumGames",
    "GymnaxGame",
    "PgxGame",
    "from_gymnasium",
    "from_gymnax",
    "from_neurogym",
    "from_pgx",
    "require",
    "to_gymnax",
]
