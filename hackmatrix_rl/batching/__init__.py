"""Code for one game becomes fast in batches. Nothing here knows the rules of a game."""

from hackmatrix_rl.batching._bits import (
    at_place,
    bits_of,
    computed_once,
    has_any,
    left,
    masked,
    materialize,
    nth_bit,
    right,
    size_of,
    union,
)
from hackmatrix_rl.batching._compaction import Chunk, for_each_chunk
from hackmatrix_rl.batching._hashed_random import Chance, below, random_bit
from hackmatrix_rl.batching._packed import BitField, Packed, fields
from hackmatrix_rl.batching._select import only_first, pick, ranks, select
from hackmatrix_rl.batching._side_by_side import side_by_side
from hackmatrix_rl.batching._sparse import (
    first_indices,
    first_success,
    one_round_loop,
    sparse_cond,
    sparse_while_loop,
)

__all__ = [
    "BitField",
    "Chance",
    "Chunk",
    "Packed",
    "at_place",
    "below",
    "bits_of",
    "computed_once",
    "fields",
    "first_indices",
    "first_success",
    "for_each_chunk",
    "has_any",
    "left",
    "masked",
    "materialize",
    "nth_bit",
    "one_round_loop",
    "only_first",
    "pick",
    "random_bit",
    "ranks",
    "right",
    "select",
    "side_by_side",
    "size_of",
    "sparse_cond",
    "sparse_while_loop",
    "union",
]
