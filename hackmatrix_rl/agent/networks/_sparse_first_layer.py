"""A dense first layer that skips repeated features and zeros on a CPU.

The static features of an observation are multiplied once for each run of steps in which they stay
the same, and only the nonzero sparse features are multiplied (`FeatureSplit`). An accelerator is
faster with one large product.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import DenseInputActorCritic
from hackmatrix_rl.agent.networks._added_heads import AuxiliaryHead
from hackmatrix_rl.agent.networks._evaluator import Done, Hidden, Step, TrunkEvaluator, flat_rows
from hackmatrix_rl.agent.networks._layers import plus_bias
from hackmatrix_rl.env import FeatureSplit
from hackmatrix_rl.system.batching import Chunk, for_each_chunk

# A product has 1/64 of all rows, but at least 8: reading the weight has a cost, too.
_RUN_SHARE, _LEAST_ROWS = 64, 8
# A loop iteration handles a quarter as many nonzeros as there are rows.
_NONZERO_SHARE = 4

Encode = Callable[[PyTree[Array]], Array]


class FirstLayerCache(eqx.Module):
    """The product of the static features of a batch, and the integers that determine them."""

    seen: PyTree[Array]
    product: Float[Array, "batch outputs"]


@final
class SparseFirstLayerEvaluator(TrunkEvaluator):
    """Applies a network whose environment's features have a split."""

    policy: DenseInputActorCritic
    auxiliary: AuxiliaryHead | None = None

    def init_cache(self, observations: PyTree[Array]) -> FirstLayerCache:
        split, weight = self._split, self.policy.first_layer.weight
        inputs = jax.vmap(split.static)(observations).astype(weight.dtype)
        product = inputs @ weight[_columns(split, observations).static]
        return FirstLayerCache(split.seen(observations), product)

    def act_step(
        self, observations: PyTree[Array], carry: PyTree[Array], cache: FirstLayerCache
    ) -> Step:
        weight = self.policy.first_layer.weight
        product, cache = product_of_next(self._split, observations, weight, cache)
        logits, value = jax.vmap(self.policy.heads)(self._above(product))
        return logits, value, carry, cache

    def unroll_trunk(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Hidden:
        num_steps, batch = done.shape
        rows = flat_rows(observations)  # successive steps are neighbouring rows
        hidden = self._above(product_of_steps(self._split, rows, self.policy.first_layer.weight))
        return jnp.swapaxes(hidden.reshape(batch, num_steps, -1), 0, 1)

    def _above(self, product: Array) -> Array:
        return jax.vmap(self.policy.above_first)(plus_bias(product, self.policy.first_layer.bias))

    @property
    def _split(self) -> FeatureSplit:
        assert self.policy.split is not None  # checked by `evaluator_of`
        return self.policy.split


def product_of_next(
    split: FeatureSplit, batch: PyTree[Array], weight: Array, cache: FirstLayerCache
) -> tuple[Float[Array, "batch outputs"], FirstLayerCache]:
    """Multiplies the features of a batch by a weight, with the cache of the previous step.

    Only the static features that changed are multiplied. Also returns the next cache.
    """

    def few(batch: PyTree[Array], weight: Array, cache: FirstLayerCache) -> Any:
        seen = split.seen(batch)
        static = weight[_columns(split, batch).static]
        size = cache.product.shape[0]

        def renew(changed: Chunk, product: Array) -> Array:
            inputs = _encoded(split.static, batch, changed.places).astype(weight.dtype)
            there = jnp.where(changed.valid, changed.places, size)
            return product.at[there].set(inputs @ static, mode="drop")

        changed = _differ(seen, cache.seen)
        product = for_each_chunk(changed, _chunks(size)[0], renew, cache.product)
        return _with_the_rest(split, batch, weight, product), FirstLayerCache(seen, product)

    def every(batch: PyTree[Array], weight: Array, cache: FirstLayerCache) -> Any:
        return _plain(split, batch, weight), cache

    return jax.lax.platform_dependent(batch, weight, cache, cpu=few, default=every)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def product_of_steps(split: FeatureSplit, rows: PyTree[Array], weight: Array) -> Array:
    """Multiplies the features of each row by a weight; rows should be in the order of steps."""
    return _forward(split, rows, weight)[0]


def _forward(split: FeatureSplit, rows: PyTree[Array], weight: Array) -> tuple[Array, Any]:
    def by_parts(rows: PyTree[Array], weight: Array) -> Array:
        starts = starts_of_runs(split.seen(rows))
        static = weight[_columns(split, rows).static]
        product = product_of_runs(split.static, rows, starts, static)
        return _with_the_rest(split, rows, weight, product)

    product = jax.lax.platform_dependent(rows, weight, cpu=by_parts, default=partial(_plain, split))
    return product, (rows, weight)


def _backward(split: FeatureSplit, given: Any, change: Array) -> tuple[None, Array]:
    rows, weight = given

    def by_parts(rows: PyTree[Array], change: Array) -> Array:
        columns = _columns(split, rows)
        starts = starts_of_runs(split.seen(rows))
        gradient = jnp.zeros(weight.shape, jnp.float32)
        for where, part in (
            (columns.static, gradient_of_runs(split.static, rows, starts, change)),
            (columns.sparse, gradient_of_nonzeros(split.show, split.sparse(rows), change)),
            (columns.others, jax.vmap(split.others)(rows).T @ change),
        ):
            gradient = gradient.at[where].set(part, unique_indices=True)
        return gradient

    gradient = jax.lax.platform_dependent(
        rows,
        change.astype(jnp.float32),
        cpu=by_parts,
        default=lambda rows, change: _features(split, rows).T @ change,
    )
    return None, gradient.astype(weight.dtype)


product_of_steps.defvjp(_forward, _backward)


def _features(split: FeatureSplit, rows: PyTree[Array]) -> Array:
    return jax.vmap(lambda row: split.encode(row).ravel())(rows)


def _plain(split: FeatureSplit, rows: PyTree[Array], weight: Array) -> Array:
    return _features(split, rows).astype(weight.dtype) @ weight


def _columns(split: FeatureSplit, rows: PyTree[Array]) -> Any:
    return split.columns(jax.tree.map(lambda leaf: leaf[0], rows))


def _with_the_rest(split: FeatureSplit, rows: PyTree[Array], weight: Array, static: Array) -> Array:
    """The product of all features, given the product of the static ones."""
    columns = _columns(split, rows)
    others = jax.vmap(split.others)(rows).astype(weight.dtype) @ weight[columns.others]
    sums = (static + others).astype(jnp.float32)
    sums = add_nonzeros(split.show, split.sparse(rows), weight[columns.sparse], sums)
    return sums.astype(weight.dtype)


def starts_of_runs(rows: PyTree[Array]) -> Bool[Array, " rows"]:
    """Whether each row is the first of a run of equal rows: `[a a b b b] -> [1 0 1 0 0]`."""
    later = jax.tree.map(lambda leaf: leaf[1:], rows)
    earlier = jax.tree.map(lambda leaf: leaf[:-1], rows)
    return jnp.concatenate([jnp.ones(1, bool), _differ(later, earlier)])


def product_of_runs(
    encode: Encode, rows: PyTree[Array], starts: Array, weight: Array
) -> Float[Array, "rows outputs"]:
    """`encode(row) @ weight` for each row, computed once for each run of equal rows."""

    def multiply(run: Chunk, products: Array) -> Array:
        product = _encoded(encode, rows, run.places).astype(weight.dtype) @ weight
        return jax.lax.dynamic_update_slice(products, product, (run.first, 0))

    width, padded = _chunks(starts.shape[0])
    empty = jnp.zeros((padded, weight.shape[1]), weight.dtype)
    products = for_each_chunk(starts, width, multiply, empty)
    return products.at[_run_of(starts)].get(mode="promise_in_bounds", indices_are_sorted=True)


def gradient_of_runs(
    encode: Encode, rows: PyTree[Array], starts: Array, change: Array
) -> Float32[Array, "inputs outputs"]:
    """The gradient of `product_of_runs` with respect to the weight, in float32.

    It sums `change`, the gradient of the products, over each run first.
    """
    width, padded = _chunks(starts.shape[0])
    sums = jax.ops.segment_sum(
        change, _run_of(starts), padded, indices_are_sorted=True, mode="promise_in_bounds"
    )

    # Padding encodes the first row, but its sums are 0.
    def add(run: Chunk, gradient: Array) -> Array:
        inputs = _encoded(encode, rows, run.places)
        return gradient + inputs.T @ jax.lax.dynamic_slice_in_dim(sums, run.first, inputs.shape[0])

    inputs = jax.eval_shape(encode, jax.tree.map(lambda leaf: leaf[0], rows)).size
    nothing = jnp.zeros((inputs, change.shape[1]), jnp.float32)
    return for_each_chunk(starts, width, add, nothing)


def _differ(rows: PyTree[Array], others: PyTree[Array]) -> Bool[Array, " rows"]:
    differ = jax.tree.map(
        lambda one, other: jnp.any((one != other).reshape(one.shape[0], -1), axis=1), rows, others
    )
    return jnp.any(jnp.stack(jax.tree.leaves(differ)), axis=0)


def _encoded(encode: Encode, rows: PyTree[Array], places: Array) -> Array:
    return jax.vmap(encode)(
        jax.tree.map(lambda leaf: leaf.at[places].get(mode="promise_in_bounds"), rows)
    )


def _chunks(size: int) -> tuple[int, int]:
    """Rows per chunk for `size` rows, and the number of rows rounded up to whole chunks."""
    width = max(-(-size // _RUN_SHARE), min(size, _LEAST_ROWS))
    return width, -(-size // width) * width


def _run_of(starts: Array) -> Array:
    """The index of each row's run: `[1 0 1 0 0] -> [0 0 1 1 1]`."""
    return jnp.cumsum(starts, dtype=jnp.int32) - 1


def add_nonzeros(show: Encode, words: Array, weight: Array, sums: Array) -> Array:
    """`sums + show(words of a row).ravel() @ weight`, in time that grows with the nonzeros."""

    def add(row: Array, column: Array, feature: Array, sums: Array) -> Array:
        rows = weight.at[column].get(mode="promise_in_bounds")
        product = feature[:, None] * rows.astype(jnp.float32)
        return sums.at[row].add(product, mode="promise_in_bounds")

    return _for_each_nonzero(show, words, add, sums)


def gradient_of_nonzeros(show: Encode, words: Array, change: Array) -> Array:
    """The gradient of `add_nonzeros` with respect to the weight, in float32."""

    def add(row: Array, column: Array, feature: Array, gradient: Array) -> Array:
        share = feature[:, None] * change.at[row].get(mode="promise_in_bounds")
        return gradient.at[column].add(share, mode="promise_in_bounds")

    columns = words.shape[1] * jax.eval_shape(show, words[0, :1]).shape[1]
    return _for_each_nonzero(show, words, add, jnp.zeros((columns, change.shape[1]), jnp.float32))


def _for_each_nonzero(
    show: Encode, words: Array, body: Callable[..., Array], value: Array
) -> Array:
    """Calls `body` with the rows, columns and values of the nonzero features, a chunk at a time."""
    # It finds the nonzero words, then the nonzero features of their cells. Chunks are padded with
    # zeros, some at row 0 and column 0.
    rows, cells = words.shape
    width = -(-rows // _NONZERO_SHARE)
    flat = words.ravel()

    def of_cells(here: Chunk, value: Array) -> Array:
        features = show(jnp.where(here.valid, flat[here.places], 0))
        channels = features.shape[1]
        numbers = features.ravel()

        def of_features(there: Chunk, value: Array) -> Array:
            cell = here.places[there.places // channels]
            column = cell % cells * channels + there.places % channels
            feature = jnp.where(there.valid, numbers[there.places], 0.0)
            return body(cell // cells, column, feature, value)

        return for_each_chunk(numbers != 0, width, of_features, value)

    return for_each_chunk(flat != 0, width, of_cells, value)
