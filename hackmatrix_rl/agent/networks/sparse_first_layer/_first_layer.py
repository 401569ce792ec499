"""The product of a network's first layer, with less work than all features take."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from hackmatrix_rl.agent.networks.sparse_first_layer._nonzeros import (
    add_nonzeros,
    gradient_of_nonzeros,
)
from hackmatrix_rl.agent.networks.sparse_first_layer._run_length import (
    chunk_of,
    encoded,
    gradient_of_runs,
    product_of_runs,
    rows_differ,
    starts_of_runs,
)
from hackmatrix_rl.batching import (
    Chunk,
    for_each_chunk,
)
from hackmatrix_rl.env import FeatureSplit


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def product_of_steps(
    split: FeatureSplit, rows: PyTree[Array], weight: Float[Array, "inputs outputs"]
) -> Float[Array, "rows outputs"]:
    """The features of each row times a weight.

    Static features are multiplied once for each run of equal rows, and of the sparse features
    only those that are not 0. The gradient is with respect to the weight alone, and is computed
    in the same way. That is on a CPU. An accelerator is faster with one large product, and
    multiplies everything.

    Args:
        split: of the features.
        rows: observations; each leaf `[rows, ...]`. Neighbours should be of successive steps.
        weight: of a layer over all features.
    """
    return _forward(split, rows, weight)[0]


class FirstLayerCache(eqx.Module):
    """The product of the static features of some observations.

    Attributes:
        seen: the integers that decided these features (see `FeatureSplit.seen`).
        product: a row for each observation.
    """

    seen: PyTree[Array]
    product: Float[Array, "batch outputs"]


def init_cache(
    split: FeatureSplit, batch: PyTree[Array], weight: Float[Array, "inputs outputs"]
) -> FirstLayerCache:
    """Multiplies the static features of a batch; arguments as those of `product_of_next`."""
    columns = _columns(split, batch)
    inputs = jax.vmap(split.static)(batch).astype(weight.dtype)
    return FirstLayerCache(seen=split.seen(batch), product=inputs @ weight[columns.static])


def product_of_next(
    split: FeatureSplit,
    batch: PyTree[Array],
    weight: Float[Array, "inputs outputs"],
    cache: FirstLayerCache,
) -> tuple[Float[Array, "batch outputs"], FirstLayerCache]:
    """The features of each observation of a batch times a weight, step by step.

    On a CPU, static features are multiplied only for the observations on which they changed.

    Args:
        split: of the features.
        batch: one observation of each environment; each leaf `[batch, ...]`.
        weight: of a layer over all features.
        cache: of the step before, under the same weight.

    Returns:
        The product, and the cache for the next step.
    """
    columns = _columns(split, batch)

    def few(
        batch: PyTree[Array], weight: Array, cache: FirstLayerCache
    ) -> tuple[Array, FirstLayerCache]:
        seen = split.seen(batch)
        static = weight[columns.static]
        size = cache.product.shape[0]

        def renew(changed: Chunk, product: Array) -> Array:
            inputs = encoded(split.static, batch, changed.places).astype(weight.dtype)
            there = jnp.where(changed.valid, changed.places, size)
            return product.at[there].set(inputs @ static, mode="drop")

        changed = rows_differ(seen, cache.seen)
        product = for_each_chunk(changed, chunk_of(size), renew, cache.product)
        return _with_the_rest(split, batch, weight, product), FirstLayerCache(
            seen=seen, product=product
        )

    def every(
        batch: PyTree[Array], weight: Array, cache: FirstLayerCache
    ) -> tuple[Array, FirstLayerCache]:
        return _plain(split, batch, weight), cache

    found: tuple[Array, FirstLayerCache] = jax.lax.platform_dependent(
        batch, weight, cache, cpu=few, default=every
    )
    return found


def _plain(split: FeatureSplit, rows: PyTree[Array], weight: Array) -> Array:
    return _features(split, rows).astype(weight.dtype) @ weight


def _features(split: FeatureSplit, rows: PyTree[Array]) -> Array:
    return jax.vmap(lambda row: split.encode(row).ravel())(rows)


def _columns(split: FeatureSplit, rows: PyTree[Array]) -> Any:
    return split.columns(jax.tree.map(lambda leaf: leaf[0], rows))


def _with_the_rest(split: FeatureSplit, rows: PyTree[Array], weight: Array, static: Array) -> Array:
    """The product of all features.

    Args:
        split: of the features.
        rows: observations; each leaf `[rows, ...]`.
        weight: of a layer over all features.
        static: the product of the static features.
    """
    columns = _columns(split, rows)
    others = jax.vmap(split.others)(rows).astype(weight.dtype) @ weight[columns.others]
    sums = (static + others).astype(jnp.float32)
    sums = add_nonzeros(split.show, split.sparse(rows), weight[columns.sparse], sums)
    return sums.astype(weight.dtype)


def _forward(
    split: FeatureSplit, rows: PyTree[Array], weight: Float[Array, "inputs outputs"]
) -> tuple[Float[Array, "rows outputs"], tuple[PyTree[Array], Float[Array, "inputs outputs"]]]:
    def by_parts(rows: PyTree[Array], weight: Array) -> Array:
        columns = _columns(split, rows)
        starts = starts_of_runs(split.seen(rows))
        product = product_of_runs(split.static, rows, starts, weight[columns.static])
        return _with_the_rest(split, rows, weight, product)

    product: Float[Array, "rows outputs"] = jax.lax.platform_dependent(
        rows, weight, cpu=by_parts, default=partial(_plain, split)
    )
    return product, (rows, weight)


def _backward(
    split: FeatureSplit,
    given: tuple[PyTree[Array], Float[Array, "inputs outputs"]],
    change: Float[Array, "rows outputs"],
) -> tuple[None, Float[Array, "inputs outputs"]]:
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

    gradient: Float[Array, "inputs outputs"] = jax.lax.platform_dependent(
        rows,
        change.astype(jnp.float32),
        cpu=by_parts,
        default=lambda rows, change: _features(split, rows).T @ change,
    )
    return None, gradient.astype(weight.dtype)


product_of_steps.defvjp(_forward, _backward)
