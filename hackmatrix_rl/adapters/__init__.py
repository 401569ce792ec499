"""This package and others: environments of theirs in this package, and the game in theirs."""

from hackmatrix_rl.adapters._extras import require
from hackmatrix_rl.adapters._from_gymnasium import GymnasiumGames, from_gymnasium
from hackmatrix_rl.adapters._from_gymnax import GymnaxGame, from_gymnax
from hackmatrix_rl.adapters._from_neurogym import Trials, from_neurogym
from hackmatrix_rl.adapters._from_pgx import PgxGame, from_pgx
from hackmatrix_rl.adapters._to_gymnax import to_gymnax

__all__ = [
    "GymnasiumGames",
    "GymnaxGame",
    "PgxGame",
    "Trials",
    "from_gymnasium",
    "from_gymnax",
    "from_neurogym",
    "from_pgx",
    "require",
    "to_gymnax",
]
