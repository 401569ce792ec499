"""Which evaluator applies a network."""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
from jaxtyping import Array, Float32

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    BlockActorCritic,
    DenseInputActorCritic,
    RecurrentActorCritic,
    TrunkActorCritic,
    following_parameters,
)
from hackmatrix_rl.agent.networks._added_heads import WithAuxiliaryHead
from hackmatrix_rl.agent.networks._evaluator import (
    Evaluator,
    PlainEvaluator,
    PlainTrunkEvaluator,
    RecurrentEvaluator,
    TrunkEvaluator,
)
from hackmatrix_rl.agent.networks._sparse_first_layer import SparseFirstLayerEvaluator

REMAT = ("none", "blocks", "full")


def evaluator_of(policy: ActorCritic | Evaluator) -> Evaluator:
    """The fastest evaluator for a network; an evaluator is returned as it is.

    The choice follows from the abstract class that the network is written for, never from the
    concrete class.
    """
    if isinstance(policy, Evaluator):
        return policy
    if isinstance(policy, WithAuxiliaryHead):
        return _with_head(evaluator_of(policy.headless), policy)
    if isinstance(policy, DenseInputActorCritic) and policy.split is not None:
        return SparseFirstLayerEvaluator(policy)
    if isinstance(policy, RecurrentActorCritic):
        return RecurrentEvaluator(following_parameters(policy))
    return plain_evaluator(policy)


def plain_evaluator(policy: ActorCritic, *, recompute: bool = False) -> Evaluator:
    """The evaluator that does nothing but call the network.

    `recompute` keeps only the input of each step for the gradient.
    """
    if isinstance(policy, WithAuxiliaryHead):
        return _with_head(plain_evaluator(policy.headless, recompute=recompute), policy)
    if isinstance(policy, TrunkActorCritic):
        return PlainTrunkEvaluator(following_parameters(policy), recompute=recompute)
    return PlainEvaluator(policy, recompute=recompute)


def without_custom_gradients(evaluator: Evaluator) -> Evaluator:
    """An evaluator of the same policy that holds no function with custom gradients."""
    if not isinstance(evaluator, SparseFirstLayerEvaluator):
        return evaluator
    return PlainTrunkEvaluator(following_parameters(evaluator.policy), evaluator.auxiliary)


def rematerialized(policy: ActorCritic, remat: str) -> Evaluator:
    """The evaluator to hand to a loss, so that less is kept for the gradient.

    The results are the same, up to the order of float sums; only memory and time differ. The
    gradient is that with respect to the network.

    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".

    Args:
        policy: the network.
        remat: `none`: the fastest evaluator. `blocks`: each block of the network keeps only its
            input. `full`: the network is evaluated step by step, and a step keeps only
            observation and memory.

    Raises:
        ValueError: the choice is unknown, or the network has no blocks.
    """
    if remat not in REMAT:
        raise ValueError(f"unknown remat {remat!r}; choose one of {', '.join(REMAT)}")
    if remat == "none":
        return evaluator_of(policy)
    if remat == "full":
        return plain_evaluator(policy, recompute=True)
    if isinstance(policy, WithAuxiliaryHead):
        return _with_head(rematerialized(policy.headless, remat), policy)
    if not isinstance(policy, BlockActorCritic):
        raise ValueError(f"{type(policy).__name__} has no blocks to recompute")
    return evaluator_of(
        eqx.tree_at(lambda network: network.blocks, policy, RecomputedBlock(policy.blocks))
    )


class RecomputedBlock(eqx.Module):
    """A block that keeps only its input for the gradient, and computes the rest again."""

    block: Callable[[Array], Array]

    def __call__(self, hidden: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The output of the block."""
        # In a loop over the blocks no compiler can merge the two computations.
        recomputed = eqx.filter_checkpoint(self.block, prevent_cse=False)
        return recomputed(hidden)


def _with_head(evaluator: Evaluator, policy: WithAuxiliaryHead) -> Evaluator:
    assert isinstance(evaluator, TrunkEvaluator)  # as the wrapped network has a trunk
    return replace(evaluator, auxiliary=policy.auxiliary)
