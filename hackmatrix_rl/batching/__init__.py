"""batching."""

from hackmatrix_rl.batching._bits import (
    at_place,
    has_any,
    left,
    masked,
    materialize,
    nth_bit,
    right,
    size_of,
)
from hackmatrix_rl.batching._compaction import (
    Chunk,
    for_each_chunk,
)
from hackmatrix_rl.batching._hashed_random import (
    Chance,
    below,
)
from hackmatrix_rl.batching._packed import (
    BitField,
    Packed,
    fields,
)

__all__ = [
    "BitField",
    "Chance",
    "Chunk",
    "Packed",
    "at_place",
    "below",
    "fields",
    "for_each_chunk",
    "has_any",
    "left",
    "masked",
    "materialize",
    "nth_bit",
    "right",
    "size_of",
]
