"""A collector that returns a stored rollout, to measure the speed of the gradient steps alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key, PyTree

from hackmatrix_rl.agent import Collector, CollectorState, Rollout
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training.sharding import specs_of


class Replayed(Collector):
    """Returns a stored rollout instead of collecting one."""

    num_steps: int = eqx.field(static=True)
    terms: tuple[str, ...] = eqx.field(static=True)
    keep_log_probs: bool = eqx.field(static=True)
    rollout: Rollout
    collector_state: CollectorState

    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        """The stored state."""
        return self.collector_state

    def __call__(
        self,
        policy: ActorCritic,
        environment: Environment,
        collector_state: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState]:
        """The stored rollout and state."""
        return self.rollout, self.collector_state


def empty_rollout(
    collect: Collector,
    policy: ActorCritic,
    environment: Environment,
    collector_state: Any,
    mesh: Mesh,
) -> Replayed:
    """A collector whose rollout is zeros, with every action legal."""
    shapes = eqx.filter_eval_shape(collect, policy, environment, collector_state)
    rollout = Rollout(
        **{
            name: _zeros(getattr(shapes[0], name), spec, mesh)
            for name, spec in specs_of(Rollout.environment_axes()).items()
        }
    )
    rollout = eqx.tree_at(lambda r: r.mask, rollout, jnp.ones_like(rollout.mask))
    kept = collect.terms, collect.keep_log_probs
    return Replayed(collect.num_steps, *kept, rollout=rollout, collector_state=collector_state)


def _zeros(shapes: PyTree, spec: PartitionSpec, mesh: Mesh) -> PyTree[Array]:
    sharding = NamedSharding(mesh, spec)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=sharding), shapes)
