"""The kinds of observation of HackMatrix, by name. Commands list them without JAX."""

from typing import Literal, get_args

Kind = Literal["compact", "classic", "tactical"]
"""`compact`: the screen as small integers. `classic`: the original's floats. `tactical`: the
compact one, and what a player remembers."""
KINDS: tuple[Kind, ...] = get_args(Kind)
