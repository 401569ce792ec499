"""The choices for settings of a network, which commands list without importing JAX."""

REMAT = ("none", "blocks", "full")
"""What the backward pass recomputes."""
VALUE_HEADS = ("scalar", "hl-gauss", "two-hot")
"""Kinds of value heads."""
MIXERS = ("attention", "swiglu")
"""Layers that mix the positions of a recursive network."""
