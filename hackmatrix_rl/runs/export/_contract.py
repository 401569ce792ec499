"""The contract of an exported agent: what a program needs to play it."""

from importlib.metadata import version
from typing import Any

import jax

from hackmatrix_rl.agent.networks import NETWORKS, ActorCritic, ConvActorCritic, WithAuxiliaryHead
from hackmatrix_rl.env import (
    CELL,
    ActionSpace,
    Batched,
    Box,
    Environment,
    HackMatrix,
    Memory,
    MultiDiscrete,
    Number,
    game_identity,
)
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.runs.export._program import named_arrays

CONTRACT = 2
"""The version of the contract."""


_LAYOUT = {
    "numbers": [each.name.lower() for each in Number],
    "memory": [each.name.lower() for each in Memory],
    "cell": {name: field.shift for name, field in CELL.items()},
}
"""HackMatrix: the order of `numbers` and `memory`, and the first bit of each field of a cell."""


def playing_network(policy: ActorCritic) -> tuple[str, ActorCritic]:
    """The network, without heads that acting does not use, and its name."""
    network = policy.headless if isinstance(policy, WithAuxiliaryHead) else policy
    if isinstance(network, ConvActorCritic):
        return "conv" if network.convolutions else "cells", network
    names = {factory: name for name, factory in NETWORKS.items()}
    return names.get(type(network), type(network).__name__), network


def contract(agent: PolicyAgent, environment: Environment) -> dict[str, Any]:
    """The contract of an agent: environment, observation, actions, network, value."""
    name, network = playing_network(agent.policy)
    spec = environment.spec
    game = environment.game if isinstance(environment, Batched) else environment
    of_game: dict[str, Any] = {"environment": type(game).__name__}
    observation: dict[str, Any] = {}
    actions = _actions(agent, spec.actions)
    if isinstance(environment, HackMatrix):
        identity = game_identity(environment.observation)
        of_game |= {"rules": identity.rules, "league": environment.config.league}
        observation = {"kind": environment.observation, "identity": identity.observation}
        if environment.observation != "classic":
            observation |= _LAYOUT
        actions |= {"identity": identity.actions, "names": [each.name for each in Action]}
    carry = jax.eval_shape(network.initial_carry)
    return {
        "contract": CONTRACT,
        "written_by": f"hackmatrix-rl {version('hackmatrix-rl')}",
        **of_game,
        "observation": {**observation, "arrays": described(spec.observation, "observation")},
        "actions": actions,
        "network": {"name": name, "carry": described(carry, "carry")},
        "value": "expected discounted return in units of reward"
        if agent.value_scale is not None
        else "in units of the network, which the checkpoint does not hold",
        "gamma": agent.gamma,
    }


def _actions(agent: PolicyAgent, space: ActionSpace) -> dict[str, Any]:
    """The space of actions, and what the outputs say about them."""
    if isinstance(space, Box):
        return {"low": list(space.low), "high": list(space.high), "choice": "the likeliest"}
    parts = {"parts": list(space.sizes)} if isinstance(space, MultiDiscrete) else {}
    return {
        "count": space.mask_size,
        **parts,
        "mask": "true where an action is legal; logits of illegal actions are -inf",
        "choice": "the likeliest" if agent.greedy else "drawn from softmax(logits)",
    }


def described(tree: Any, what: str) -> list[dict[str, Any]]:
    """Name, shape and dtype of each array of one observation or carry, in argument order."""
    return [
        {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
        for name, array in named_arrays(tree, what).items()
    ]
