"""An agent as JSON: its contract, and its weights as lists."""

from typing import Any

import jax
import numpy as np

from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.agent.networks import Dense
from hackmatrix_rl.env import Box, Environment
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.checkpoints import affine
from hackmatrix_rl.runs.export._contract import contract, described, playing_network
from hackmatrix_rl.system.errors import ConfigError

NETWORKS = ("mlp", "conv", "cells", "gru", "lstm")
"""The networks that this format supports."""


def as_json(agent: PolicyAgent, environment: Environment) -> dict[str, Any]:
    """The contract and the layers by name: `weight` `[inputs, outputs]` and `bias`.

    The inputs of the layers are the features of `EnvSpec.encode`, `grid` and `flat`. The value is
    in units of reward.
    """
    layers = _layers(agent, environment)
    spec = environment.spec
    features = jax.eval_shape(spec.encode, spec.observation)
    return {
        **contract(agent, environment),
        "features": described(features, "features"),
        # Read as float32, the numbers have the same bits.
        "layers": jax.tree.map(np.ndarray.tolist, layers),
    }


def _layers(agent: PolicyAgent, environment: Environment) -> dict[str, Any]:
    """The layers by name, each `weight` `[inputs, outputs]` and `bias`; float32."""
    name, found = playing_network(agent.policy)
    network: Any = found
    if name not in NETWORKS:
        raise ConfigError(
            f"this format holds the networks {', '.join(NETWORKS)}, not {type(network).__name__}. "
            "Use --format onnx or stablehlo, which take every network."
        )
    if isinstance(environment.spec.actions, Box):
        raise ConfigError(
            f"this format holds logits, and the actions are {environment.spec.actions}. Use "
            "--format onnx or stablehlo, which hold the likeliest action."
        )
    value = network.heads.value
    if not isinstance(value, Dense):
        raise ConfigError(
            "this format holds a scalar value, and this network has one of bins. Use --format onnx "
            "or stablehlo, or train with --value-head scalar."
        )
    scale = IDENTITY_SCALE if agent.value_scale is None else agent.value_scale
    shift, factor = affine(scale)
    return {
        **_hidden(name, network),
        "policy": _layer(network.heads.policy),
        "value": {
            "weight": _array(value.weight * factor),
            "bias": _array(value.bias * factor + shift),
        },
    }


def _hidden(name: str, network: Any) -> dict[str, Any]:
    """The layers below the heads, by name."""
    if name in ("gru", "lstm"):
        return {
            "embed": _layer(network.embed),
            "inwards": _layer(network.cell.inwards),
            "recurrent": _layer(network.cell.recurrent),
        }
    if name == "mlp":
        return {"dense": [_layer(each) for each in network.layers]}
    return {
        "cell": _layer(network.cell),
        "convolutions": [_layer(each) for each in network.convolutions],
        "dense": [_layer(each) for each in network.dense],
    }


def _layer(layer: Any) -> dict[str, np.ndarray]:
    return {"weight": _array(layer.weight), "bias": _array(layer.bias)}


def _array(array: Any) -> np.ndarray:
    return np.asarray(array, np.float32)
