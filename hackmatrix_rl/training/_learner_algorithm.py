"""What algorithms with one learner share: its state, and its place on a mesh."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, Counter
from hackmatrix_rl.training._gradient_step import Learner
from hackmatrix_rl.training._optimization import Optimization
from hackmatrix_rl.training._report import Dispatch, Metrics
from hackmatrix_rl.training._state_shardings import state_shardings

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound="TrainState")


def scan_and_sum(body: Callable[[C, X], tuple[C, Y]], initial: C, inputs: X) -> tuple[C, Y]:
    """`jax.lax.scan` with a carry that may hold more than arrays, and the sum of the outputs.

    Only the arrays of the carry change.
    """
    arrays, rest = eqx.partition(initial, eqx.is_array)

    def array_body(arrays: Any, inputs: X) -> tuple[Any, Y]:
        carry, output = body(eqx.combine(arrays, rest), inputs)
        return eqx.filter(carry, eqx.is_array), output

    arrays, outputs = jax.lax.scan(array_body, arrays, inputs)
    carry: C = eqx.combine(arrays, rest)
    return carry, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), outputs)


class TrainState(AlgorithmState):
    """The training state of an algorithm with one learner. Subclasses may add fields.

    Attributes:
        learner: the policy and everything that changes with it.
        collector_state: the environments between two updates, and the buffer if there is one.
        key: constant; every draw of the learner is a function of it and of `update`.
    """

    learner: Learner
    collector_state: Any
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses a field under the former name of `collector_state`."""
        super().__init_subclass__(**arguments)
        if "actors" in cls.__annotations__:
            raise TypeError(f"{cls.__name__}.actors: rename it collector_state")

    @property
    def actors(self) -> Any:
        """The former name of `collector_state`, for one version."""
        said = "TrainState.actors is now collector_state; the old name goes with the next version"
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        return self.collector_state

    @classmethod
    def first(
        cls: type[S], key: Key[Array, ""], learner: Learner, collector_state: Any, **own: Any
    ) -> S:
        """The state before the first update, with a subclass's own fields."""
        zero, none = jnp.zeros((), jnp.int32), Counter()
        shared = {"learner": learner, "collector_state": collector_state, "key": key}
        return cls(**shared, update=zero, env_steps=none, **own)


class LearnerAlgorithm(Algorithm[S]):
    """An algorithm that takes its policy and value scale from its learner.

    Attributes:
        optimization: takes the gradient steps, on the devices of its mesh.
        networks: fields of the state that are cut along `fsdp`, as the learner is.
    """

    optimization: eqx.AbstractVar[Optimization]
    networks: ClassVar[tuple[str, ...]] = ()

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def mesh(self) -> Mesh:  # type: ignore[override]
        """The devices that train."""
        return self.optimization.mesh

    def shardings(self, state: S) -> PyTree[NamedSharding]:
        """Cuts networks along `fsdp`, and `collector_state` along `data`."""
        offload = self.optimization.offload
        return state_shardings(self.mesh, state, networks=self.networks, offload=offload)

    @property
    def reinit_fields(self) -> tuple[str, ...]:
        """The environments: a resume reinitializes them if their number or sizes change."""
        return ("collector_state",)

    def policy(self, state: S) -> ActorCritic:
        """The network of the learner, with averaged parameters if it keeps averages."""
        return state.learner.played

    def value_scale_of(self, state: S) -> ValueScale | None:
        """The scale of the learner."""
        return state.learner.value_scale

    def metrics(self, report: Any, dispatch: Dispatch) -> Metrics:
        """Means over the updates, and over the episodes that ended."""
        return report.metrics(dispatch, batch=self.steps_per_update)

    def advance(self, state: S, learner: Learner, collector_state: Any, **changes: Any) -> S:
        """The state after an update that made this learner and this state of its collector."""
        return replace(
            state,
            learner=learner,
            collector_state=collector_state,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
            **changes,
        )
