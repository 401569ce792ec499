"""The heads of a network as settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Heads:
    """The heads of a network that a config decides.

    The value's is one of `VALUE_HEADS`; the auxiliary one may also predict the victory.
    """

    value: str = "scalar"
    auxiliary: bool = False
    victory: bool = False
