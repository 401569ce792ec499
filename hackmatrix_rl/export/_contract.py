"""What a program must know that plays an exported agent."""

from importlib.metadata import version
from typing import Any

import jax
from jaxtyping import PyTree

from hackmatrix_rl.agent.networks import (
    ActorCritic,
    ConvActorCritic,
    GRUActorCritic,
    MLPActorCritic,
    WithAuxiliaryHead,
)
from hackmatrix_rl.env import HackMatrix, game_identity
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.game import Action

CONTRACT = 1
"""The version of the contract."""

NETWORKS = ("mlp", "cells", "gru")
"""What is exported."""


def exported_network(policy: ActorCritic) -> tuple[str, ActorCritic]:
    """The name and the network that plays, without heads that acting does not use.

    Raises:
        ConfigError: the network is another one.
    """
    network = policy.headless if isinstance(policy, WithAuxiliaryHead) else policy
    if isinstance(network, MLPActorCritic):
        return "mlp", network
    if isinstance(network, ConvActorCritic) and not network.convolutions:
        return "cells", network
    if isinstance(network, GRUActorCritic):
        return "gru", network
    raise ConfigError(
        f"the network {type(network).__name__} is not exported; {', '.join(NETWORKS)} are. Train "
        f"one: hackmatrix-rl train --network {NETWORKS[0]}"
    )


def contract(agent: PolicyAgent, environment: HackMatrix) -> dict[str, Any]:
    """The contract of an agent: rules, league, observation, actions, network, value.

    Raises:
        ConfigError: its network is not exported.
    """
    name, network = exported_network(agent.policy)
    identity = game_identity(environment.observation)
    return {
        "contract": CONTRACT,
        "written_by": f"hackmatrix-rl {version('hackmatrix-rl')}",
        "rules": identity.rules,
        "league": environment.config.league,
        "observation": {
            "kind": environment.observation,
            "identity": identity.observation,
            "arrays": described(environment.spec.observation),
        },
        "actions": {
            "identity": identity.actions,
            "names": [each.name for each in Action],
            "mask": "true where an action is legal; logits of illegal actions are -inf",
            "choice": "the likeliest" if agent.greedy else "drawn from softmax(logits)",
        },
        "network": {"name": name, "carry": described(network.initial_carry())},
        "value": "expected discounted return in units of reward"
        if agent.value_scale is not None
        else "in units of the network, which the checkpoint does not hold",
        "gamma": agent.gamma,
    }


def described(tree: PyTree) -> list[dict[str, Any]]:
    """Name, shape and dtype of each array of one position, in the order of the arguments."""
    leaves = jax.tree.leaves_with_path(tree)
    return [
        {
            "name": jax.tree_util.keystr(path, simple=True, separator=".") or "carry",
            "shape": list(leaf.shape),
            "dtype": str(leaf.dtype),
        }
        for path, leaf in leaves
    ]
