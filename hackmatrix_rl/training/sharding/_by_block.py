"""Networks whose blocks stay cut along `fsdp` while a gradient is computed."""

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
    """How a policy is cut within `on_each_device`, and gathered block by block.

    A device holds all of one block at a time, and its part of the other blocks and their gradient.
    Parameters outside of blocks are replicated. So are parameters that are small in one block, and
    parameters that would be cut along the axis of blocks.

    Attributes:
        policy: how each array of the policy is cut; `None` for other leaves.
        gradient: how the gradients of the devices are put together, with a further axis in front.
            Along it are the devices whose mean is the gradient: for a part of a block those along
            `data`, since the others have other parts.
        axes: the axis along which each array of one block is cut; `None` if it is whole.
    """

    policy: PyTree[PartitionSpec]
    gradient: PyTree[PartitionSpec]
    axes: tuple[int | None, ...]

    def gathering(self, policy: ActorCritic, *, twice: bool) -> ActorCritic:
        """The policy that a device computes with, from its part.

        A block is gathered when it is computed, and `twice` if its gradient gathers it again.
        """
        return with_blocks(
            policy, lambda blocks: GatheredBlock(blocks, self.axes, over=FSDP, twice=twice)
        )


def by_block(mesh: Mesh, policy: ActorCritic) -> ByBlock | None:
    """How a policy is gathered block by block; `None` if it has no blocks or a mesh no `fsdp`."""
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
