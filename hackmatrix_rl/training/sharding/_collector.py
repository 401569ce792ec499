"""Collecting on a mesh: each device plays its own environments."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Key, PyTree

from hackmatrix_rl.agent import (
    DRAWN,
    ActionChoice,
    Collector,
    CollectorState,
    Rollout,
    RolloutCollector,
)
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training.sharding._mesh import BY_ENVIRONMENT, BY_STEP_AND_ENVIRONMENT, specs_of
from hackmatrix_rl.training.sharding._on_each_device import on_each_device

Fields = dict[str, Any]


class ShardedCollector(Collector):
    """Runs a collector on each device of a mesh.

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
        """The number of steps of the wrapped collector."""
        return self.collect.num_steps

    @property  # type: ignore[misc]
    def terms(self) -> tuple[str, ...]:  # type: ignore[override]
        """The reward terms that the wrapped collector keeps."""
        return self.collect.terms

    @property  # type: ignore[misc]
    def keep_log_probs(self) -> bool:  # type: ignore[override]
        """Whether the wrapped collector keeps all log-probabilities."""
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
        rollout, actors, _, _ = self.collect_with(
            DRAWN, (), policy, environment, actors, precision=precision
        )
        return rollout, actors

    def collect_with(
        self,
        choice: ActionChoice,
        memory: PyTree[Array],
        policy: ActorCritic,
        environment: Environment,
        actors: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState, PyTree[Array], PyTree[Array]]:
        """Collects a rollout with chosen actions; see `RolloutCollector.collect_with`.

        The memory of the choice has a leading axis of environments, its notes one after the steps.
        """
        parts, *after = self.collect_parts(
            choice, memory, policy, environment, actors, precision=precision
        )
        sums = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), parts.pop("episodes"))
        return Rollout(**parts, episodes=sums), *after

    def collect_parts(
        self,
        choice: ActionChoice,
        memory: PyTree[Array],
        policy: ActorCritic,
        environment: Environment,
        actors: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Fields, CollectorState, PyTree[Array], PyTree[Array]]:
        """Collects on each device.

        Returns:
            The fields of the rollout, with a leading axis of devices in `episodes`; the states of
            the environments and of the choice after it; and the notes of the choice.
        """
        # Cast first: then less is gathered if parameters are cut along `fsdp`.
        policy = precision.cast_to_compute(policy)

        def play(
            choice: ActionChoice, policy: ActorCritic, environment: Environment, given: Any
        ) -> Any:
            memory, actors = given
            rollout, after, memory, notes = self.collect.collect_with(
                choice, memory, policy, environment, CollectorState(**actors), precision=precision
            )
            episodes = jax.tree.map(lambda leaf: leaf[None], rollout.episodes)
            return {**vars(rollout), "episodes": episodes}, vars(after), memory, notes

        state = specs_of(CollectorState.environment_axes())
        # One row of sums from each device.
        made = {**specs_of(Rollout.environment_axes()), "episodes": BY_ENVIRONMENT}
        rollout, after, memory, notes = on_each_device(
            self.mesh,
            play,
            (choice, policy, environment),
            (memory, vars(actors)),
            takes=(BY_ENVIRONMENT, state),
            returns=(made, state, BY_ENVIRONMENT, BY_STEP_AND_ENVIRONMENT),
        )
        return rollout, CollectorState(**after), memory, notes

    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        """Starts one environment for each key; see `start_collector`."""

        def begin(
            policy: ActorCritic, environment: Environment, keys: Key[Array, " some"]
        ) -> Fields:
            return vars(self.collect.start(policy, environment, keys))

        state = specs_of(CollectorState.environment_axes())
        fields = on_each_device(
            self.mesh, begin, (policy, environment), keys, takes=BY_ENVIRONMENT, returns=state
        )
        return CollectorState(**fields)
