"""Collecting rollouts on a mesh: each device steps its own environments."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Key

from hackmatrix_rl.agent import Collector, CollectorState, Rollout, RolloutCollector
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training.sharding._mesh import BY_ENVIRONMENT, on_each_device, specs_of

Fields = dict[str, Any]


class ShardedCollector(Collector):
    """Runs a collector on each device of a mesh, on its shard of the environments.

    There is no communication during the rollout. The policy is gathered before, and the episode
    sums of the devices are added after it.
    """

    collect: RolloutCollector
    mesh: Mesh = eqx.field(static=True)

    num_steps: int = eqx.field(static=True)
    terms: tuple[str, ...] = eqx.field(static=True)
    keep_log_probs: bool = eqx.field(static=True)

    def __init__(self, collect: RolloutCollector, mesh: Mesh) -> None:
        self.collect = collect
        self.mesh = mesh
        self.num_steps = collect.num_steps
        self.terms = collect.terms
        self.keep_log_probs = collect.keep_log_probs

    def __call__(
        self,
        policy: ActorCritic,
        environment: Environment,
        collector_state: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState]:
        # Cast first: fewer bytes are gathered if parameters are sharded along `fsdp`.
        policy = precision.cast_to_compute(policy)

        def play(
            collect: RolloutCollector,
            policy: ActorCritic,
            environment: Environment,
            collector_state: Fields,
        ) -> tuple[Fields, Fields]:
            rollout, after = collect(
                policy, environment, CollectorState(**collector_state), precision=precision
            )
            episodes = jax.tree.map(lambda leaf: leaf[None], rollout.episodes)
            return {**vars(rollout), "episodes": episodes}, vars(after)

        # One row of sums from each device.
        made = {**specs_of(Rollout.environment_axes()), "episodes": BY_ENVIRONMENT}
        state = specs_of(CollectorState.environment_axes())
        modules = self.collect, policy, environment
        parts, after = on_each_device(
            self.mesh, play, modules, vars(collector_state), takes=state, returns=(made, state)
        )
        sums = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), parts.pop("episodes"))
        return Rollout(**parts, episodes=sums), CollectorState(**after)

    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        def begin(policy: ActorCritic, environment: Environment, keys: Key[Array, " n"]) -> Fields:
            return vars(self.collect.start(policy, environment, keys))

        state = specs_of(CollectorState.environment_axes())
        fields = on_each_device(
            self.mesh, begin, (policy, environment), keys, takes=BY_ENVIRONMENT, returns=state
        )
        return CollectorState(**fields)
