"""What the settings of a network may be, by name. Commands list it without JAX."""

REMAT = ("none", "blocks", "full")
"""What the backward pass recomputes."""
VALUE_HEADS = ("scalar", "hl-gauss", "two-hot")
"""Kinds of value heads."""
MIXERS = ("attention", "swiglu")
"""What lets the cells of a recursive network see each other."""
