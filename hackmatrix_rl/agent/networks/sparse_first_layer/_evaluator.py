"""The evaluator of a network whose first layer skips what repeats and what is 0."""

from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._auxiliary_head import AuxiliaryHead
from hackmatrix_rl.agent.networks._evaluator import TrunkEvaluator
from hackmatrix_rl.agent.networks._layers import plus_bias
from hackmatrix_rl.agent.networks._trunk import DenseInputActorCritic
from hackmatrix_rl.agent.networks.sparse_first_layer._first_layer import (
    FirstLayerCache,
    init_cache,
    product_of_next,
    product_of_steps,
)
from hackmatrix_rl.env import FeatureSplit


@final
class SparseFirstLayerEvaluator(TrunkEvaluator):
    """Computes the first layer of a network with less work than a product of all features.

    The static features are multiplied once for each run of steps in which they stay the same,
    and of the sparse features only those that are not 0. That is on a CPU. An accelerator is
    faster with one large product, and multiplies everything.

    Attributes:
        policy: the network. Its environment's features have a split.
        auxiliary: the head of an auxiliary loss, if the network has one.
    """

    policy: DenseInputActorCritic
    auxiliary: AuxiliaryHead | None = None
    custom_gradients = True

    def __check_init__(self) -> None:
        if self.policy.split is None:
            raise ValueError("the sparse first layer needs a network whose features have a split")

    def init_cache(self, observations: PyTree[Array]) -> FirstLayerCache:
        """The product of the static features of the first observations."""
        return init_cache(self._split, observations, self.policy.first_layer.weight)

    def act_step(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        cache: FirstLayerCache,
    ) -> tuple[
        Float32[Array, "batch num_actions"],
        Float32[Array, " batch"],
        PyTree[Array],
        FirstLayerCache,
    ]:
        """The call on a batch; static features are multiplied only where they have changed."""
        first = self.policy.first_layer
        product, cache = product_of_next(self._split, observations, first.weight, cache)
        hidden = jax.vmap(self.policy.above_first)(plus_bias(product, first.bias))
        logits, value = jax.vmap(self.policy.heads)(hidden)
        return logits, value, carry, cache

    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """The trunk on whole sequences, in one flat batch."""
        num_steps, batch = done.shape
        # All steps of one environment, then those of the next: so equal rows are neighbours.
        rows = jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), observations
        )
        first = self.policy.first_layer
        product = product_of_steps(self._split, rows, first.weight)
        hidden = jax.vmap(self.policy.above_first)(plus_bias(product, first.bias))
        return jnp.swapaxes(hidden.reshape(batch, num_steps, -1), 0, 1)

    @property
    def _split(self) -> FeatureSplit:
        assert self.policy.split is not None  # checked at construction
        return self.policy.split
