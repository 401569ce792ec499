"""Collecting on a mesh: each device plays its own environments."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Key

from hackmatrix_rl.agent import (
    Collector,
    CollectorState,
    Rollout,
    RolloutCollector,
)
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training.sharding._mesh import (
    BY_ENVIRONMENT,
    REPLICATED,
    specs_of,
)

Fields = dict[str, Any]


class ShardedCollector(Collector):
    """Lets a collector do on each device of a mesh what it does on one.

    The devices send nothing during play. Each device has the whole policy before, and their
    episode sums are added up afterwards.

    Attributes:
        collect: what each device does with its own environments.
        mesh: the devices; they share the environments evenly.
    """

    collect: RolloutCollector
    mesh: Mesh = eqx.field(static=True)

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def num_steps(self) -> int:  # type: ignore[override]
        """The collector's."""
        return self.collect.num_steps

    @property  # type: ignore[misc]
    def terms(self) -> tuple[str, ...]:  # type: ignore[override]
        """The collector's."""
        return self.collect.terms

    @property  # type: ignore[misc]
    def keep_log_probs(self) -> bool:  # type: ignore[override]
        """The collector's."""
        return self.collect.keep_log_probs

    def __init__(self, collect: RolloutCollector, mesh: Mesh) -> None:
        """Wraps a collector.

        Args:
            collect: what each device does with its own environments.
            mesh: the devices.
        """
        self.collect = collect
        self.mesh = mesh

    def __call__(
        self,
        policy: ActorCritic,
        environment: Environment,
        actors: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState]:
        """Collects one rollout; see `RolloutCollector`."""
        parts, actors = self.collect_parts(policy, environment, actors, precision=precision)
        sums = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), parts.pop("episodes"))
        return Rollout(**parts, episodes=sums), actors

    def collect_parts(
        self,
        policy: ActorCritic,
        environment: Environment,
        actors: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Fields, CollectorState]:
        """Collects on each device.

        Returns:
            The fields of the rollout, with a leading axis of devices in `episodes`; and the
            state of the environments after it.
        """
        # Cast first: then less is gathered if parameters are cut along `fsdp`.
        policy = precision.cast_to_compute(policy)

        def play(policy: ActorCritic, environment: Environment, actors: Fields) -> Any:
            rollout, after = self.collect(
                policy, environment, CollectorState(**actors), precision=precision
            )
            episodes = jax.tree.map(lambda leaf: leaf[None], rollout.episodes)
            return {**vars(rollout), "episodes": episodes}, vars(after)

        state = specs_of(CollectorState.environment_axes())
        # One row of sums from each device.
        made = {**specs_of(Rollout.environment_axes()), "episodes": BY_ENVIRONMENT}
        rollout, after = self._on_each_device(
            play, policy, environment, vars(actors), takes=state, returns=(made, state)
        )
        return rollout, CollectorState(**after)

    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        """Starts one environment for each key; see `start_collector`."""

        def begin(
            policy: ActorCritic, environment: Environment, keys: Key[Array, " some"]
        ) -> Fields:
            return vars(self.collect.start(policy, environment, keys))

        state = specs_of(CollectorState.environment_axes())
        fields = self._on_each_device(
            begin, policy, environment, keys, takes=BY_ENVIRONMENT, returns=state
        )
        return CollectorState(**fields)

    def _on_each_device(
        self,
        function: Callable[[ActorCritic, Environment, Any], Any],
        policy: ActorCritic,
        environment: Environment,
        given: Any,
        *,
        takes: Any,
        returns: Any,
    ) -> Any:
        """Calls a function on each device with its part of `given`; the rest is whole."""
        arrays, code = eqx.partition((policy, environment), eqx.is_array)

        def on_one(arrays: Any, given: Any) -> Any:
            policy, environment = eqx.combine(arrays, code)
            return function(policy, environment, given)

        mapped = jax.shard_map(
            on_one,
            mesh=self.mesh,
            in_specs=(REPLICATED, takes),
            out_specs=returns,
            check_vma=False,  # the specs say what varies over devices
        )
        return mapped(arrays, given)
