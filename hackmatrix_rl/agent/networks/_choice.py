"""Chooses the evaluator of a network."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    BlockActorCritic,
    DenseInputActorCritic,
    RecurrentActorCritic,
    TrunkActorCritic,
    following_parameters,
)
from hackmatrix_rl.agent.networks._added_heads import WithAuxiliaryHead
from hackmatrix_rl.agent.networks._blocks import RecomputedBlock, WrappedBlock
from hackmatrix_rl.agent.networks._evaluator import (
    Evaluator,
    PlainEvaluator,
    PlainTrunkEvaluator,
    RecurrentEvaluator,
    TrunkEvaluator,
)
from hackmatrix_rl.agent.networks._names import REMAT
from hackmatrix_rl.agent.networks._normalized import unwrapped
from hackmatrix_rl.agent.networks._sparse_first_layer import SparseFirstLayerEvaluator


def evaluator_of(policy: ActorCritic | Evaluator) -> Evaluator:
    """The fastest evaluator for a network; an evaluator is returned unchanged.

    The choice depends on the abstract base class of the network, never on its concrete class.
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
    """The evaluator that only calls the network.

    `recompute` keeps only the input of each step for the gradient.
    """
    if isinstance(policy, WithAuxiliaryHead):
        return _with_head(plain_evaluator(policy.headless, recompute=recompute), policy)
    if isinstance(policy, TrunkActorCritic):
        return PlainTrunkEvaluator(following_parameters(policy), recompute=recompute)
    return PlainEvaluator(policy, recompute=recompute)


def without_custom_gradients(evaluator: Evaluator) -> Evaluator:
    """An evaluator of the same policy without custom gradients."""
    if not isinstance(evaluator, SparseFirstLayerEvaluator):
        return evaluator
    return PlainTrunkEvaluator(following_parameters(evaluator.policy), evaluator.auxiliary)


def rematerialized(policy: ActorCritic, remat: str) -> Evaluator:
    """An evaluator for a loss that stores fewer activations for the gradient.

    The results are the same, up to the order of float sums; only memory and time differ. The
    gradient has the structure of the network.

    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".

    Args:
        policy: the network.
        remat: `none`: the fastest evaluator. `blocks`: each block of the network stores only its
            input. `full`: the network is evaluated step by step, and a step stores only its
            observation and carry.

    Raises:
        ValueError: the choice is unknown, or the network has no blocks.
    """
    if remat not in REMAT:
        raise ValueError(f"unknown remat {remat!r}; choose one of {', '.join(REMAT)}")
    if remat == "none":
        return evaluator_of(policy)
    if remat == "full":
        return plain_evaluator(policy, recompute=True)
    return evaluator_of(with_blocks(policy, RecomputedBlock))


def blocks_of(policy: PyTree) -> Any:
    """The stacked blocks of a network, or of its gradient; `None` if it has none."""
    network = unwrapped(policy)
    return network.blocks if isinstance(network, BlockActorCritic) else None


def with_blocks(policy: ActorCritic, wrap: Callable[[Any], WrappedBlock]) -> ActorCritic:
    """The network with wrapped blocks. Raises a ValueError if it has none."""
    blocks = blocks_of(policy)
    if blocks is None:
        raise ValueError(f"{type(unwrapped(policy)).__name__} has no blocks to recompute")
    return eqx.tree_at(blocks_of, policy, wrap(blocks))


def _with_head(evaluator: Evaluator, policy: WithAuxiliaryHead) -> Evaluator:
    assert isinstance(evaluator, TrunkEvaluator)  # as the wrapped network has a trunk
    return replace(evaluator, auxiliary=policy.auxiliary)
