"""Reading and writing one row of a table in each game."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Int32, PyTree, Shaped, UInt32

Table = Shaped[Array, "rows words"]
Row = Shaped[Array, " words"]

# In a batch, the tables become one long table. Otherwise the compiler for TPUs copies every table
# in each step, because it uses different layouts for reads and for writes.


@custom_vmap
def read_row(table: Table, number: Int32[Array, ""]) -> Row:
    """A row of the table. `number` must be in range."""
    return jax.lax.dynamic_index_in_dim(table, number, keepdims=False)


@custom_vmap
def write_row(table: Table, number: Int32[Array, ""], row: Row) -> Table:
    """The table with a new row; unchanged if `number` is one past the last row."""
    return table.at[number].set(row, mode="drop")


@read_row.def_vmap
def _read_rows(size: int, batched: PyTree, table: Array, number: Array) -> tuple[Array, bool]:
    table, number = _in_batch(size, batched, table, number)
    rows = table.reshape(-1, *table.shape[2:])
    return rows.at[_places(table, number)].get(mode="promise_in_bounds"), True


@write_row.def_vmap
def _write_rows(
    size: int, batched: PyTree, table: Array, number: Array, row: Array
) -> tuple[Array, bool]:
    table, number, row = _in_batch(size, batched, table, number, row)
    rows = table.reshape(-1, *table.shape[2:])
    places = jnp.where(number < table.shape[1], _places(table, number), rows.shape[0])
    return rows.at[places].set(row, mode="drop").reshape(table.shape), True


def _places(table: Array, number: Array) -> UInt32[Array, " games"]:
    """The index of each game's row in the table of all games."""
    game = jnp.arange(table.shape[0], dtype=jnp.uint32)  # unsigned: no negative index to wrap
    return game * table.shape[1] + number.astype(jnp.uint32)


def _in_batch(size: int, batched: PyTree, *values: Any) -> list[Array]:
    """Broadcasts values that all games share along the batch axis."""
    return [
        value if has_axis else jnp.broadcast_to(value, (size, *value.shape))
        for value, has_axis in zip(values, batched, strict=True)
    ]
