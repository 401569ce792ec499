"""What decides how long a program takes to compile."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.config import RunConfig
from hackmatrix_rl.evaluation import Agent, PolicyAgent

# Settings that decide how much there is to compile; others hardly change it.
_SETTINGS = (
    *("network", "width", "depth", "num_envs", "num_steps", "minibatches", "grad_accum", "remat"),
    *("precision", "precision_parts", "aux_coefficient", "debug", "observation"),
    *("vertices", "k", "game_batch_size", "moves_per_update", "num_simulations", "train_steps"),
    *("algorithm", "train_freq", "sequence_length", "burn_in", "sequence_batch_size"),
)


def train_kind(config: RunConfig, mesh: Mesh) -> str:
    """One line for all trainings that take about as long to compile on one machine."""
    named: dict[str, Any] = {
        name: getattr(config, name) for name in _SETTINGS if hasattr(config, name)
    }
    named["mesh"] = dict(mesh.shape)
    return " ".join(f"{name}={value}" for name, value in named.items())


def evaluation_kind(policies: Mapping[str, ActorCritic | Agent], **sizes: Any) -> str:
    """The same for evaluations.

    Args:
        policies: that play.
        sizes: further numbers that matter, by name.
    """
    named = [f"{name}={value}" for name, value in sizes.items()]
    return " ".join(["evaluate", *map(_described, policies.values()), *named])


def game_kind(player: ActorCritic | Agent | None) -> str:
    """The same for one game, move by move, with an agent that thinks or without."""
    return "game" if player is None else f"game {_described(player)}"


def _described(player: ActorCritic | Agent) -> str:
    """A kind of player with the number of its parameters."""
    inner = player.policy if isinstance(player, PolicyAgent) else player
    size = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(inner, eqx.is_array)))
    return f"{type(inner).__name__}:{size}"
