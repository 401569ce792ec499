"""The game in a browser: a server on this machine, for one person."""

from hackmatrix_rl.view.ui._serve import PORT, serve
from hackmatrix_rl.view.ui._table import FindPlayer, Table

__all__ = ["PORT", "FindPlayer", "Table", "serve"]
