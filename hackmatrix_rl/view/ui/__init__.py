"""The game in a browser: a server on this machine, for one person."""

from hackmatrix_rl.view.ui._serve import PORT, serve

__all__ = ["PORT", "serve"]
