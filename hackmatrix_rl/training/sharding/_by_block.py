"""Networks whose blocks stay sharded along `fsdp` while a gradient is computed."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import PyTree

from hackmatrix_rl.agent.networks import ActorCritic, GatheredBlock, blocks_of, with_blocks
from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.training.sharding._mesh import BY_ENVIRONMENT, DATA, FSDP, REPLICATED
from hackmatrix_rl.training.sharding._placement import each_array, fsdp_spec


@dataclass(frozen=True)
class ByBlock:
    """The partition specs of a policy within `on_each_device`, which gathers it block by block.

    A device holds one gathered block at a time, and its shard of the other blocks and of their
    gradient. Parameters outside of blocks are replicated. So are parameters that are small in one
    block, and parameters that would be sharded along the axis of blocks.

    Attributes:
        policy: the spec of each array of the policy; `None` for other leaves.
        gradient: the specs of the gradient, with a leading axis of the devices whose mean is the
            gradient. For a sharded array these are the devices along `data`, since devices along
            `fsdp` have other shards.
        axes: the axis along which each array of one block is sharded; `None` if it is replicated.
    """

    policy: PyTree[PartitionSpec]
    gradient: PyTree[PartitionSpec]
    axes: tuple[int | None, ...]

    def gathering(self, policy: ActorCritic, *, twice: bool) -> ActorCritic:
        """The policy that a device computes with, from its shards.

        A block is gathered in the forward pass, and with `twice` again in the backward pass.
        """
        return with_blocks(
            policy, lambda blocks: GatheredBlock(blocks, self.axes, over=FSDP, twice=twice)
        )


def by_block(mesh: Mesh, policy: ActorCritic) -> ByBlock | None:
    """The `ByBlock` of a policy; `None` without blocks or without an `fsdp` above 1."""
    if mesh.shape[FSDP] == 1 or blocks_of(policy) is None:
        return None

    def within_block(leaf: Any) -> PartitionSpec:
        spec = fsdp_spec(leaf.shape, mesh.shape[FSDP])
        across = len(spec) == 1  # the first axis is the axis of blocks
        small = fsdp_spec(leaf.shape[1:], mesh.shape[FSDP]) == REPLICATED
        return REPLICATED if across or small else spec

    def specs_of(policy: PyTree) -> PyTree[PartitionSpec]:
        whole = each_array(lambda _: REPLICATED, policy)
        cut = each_array(within_block, parameters_of(blocks_of(policy)))
        return eqx.tree_at(blocks_of, whole, eqx.combine(cut, blocks_of(whole)))

    specs = specs_of(policy)
    return ByBlock(
        policy=specs,
        gradient=jax.tree.map(
            lambda spec: PartitionSpec(DATA, *spec) if len(spec) else BY_ENVIRONMENT,
            specs_of(parameters_of(policy)),
        ),
        axes=tuple(
            len(spec) - 2 if len(spec) else None for spec in jax.tree.leaves(blocks_of(specs))
        ),
    )
