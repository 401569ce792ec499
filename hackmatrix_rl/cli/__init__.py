"""The command line: one small file for each command."""

from hackmatrix_rl.cli._main import main

__all__ = ["main"]
