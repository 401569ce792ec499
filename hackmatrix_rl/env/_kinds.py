"""The kinds of observation of HackMatrix. Commands list them without importing JAX."""

from typing import Literal, get_args

Kind = Literal["compact", "classic", "tactical"]
"""`compact`: the screen as small integers. `classic`: the original's floats. `tactical`:
`compact`, and what a player remembers."""
KINDS: tuple[Kind, ...] = get_args(Kind)
