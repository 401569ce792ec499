"""The interface between a learning algorithm and everything that runs it."""

import math
from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training._report import Dispatch, Metrics


class Counter(eqx.Module):
    """A count below 2^64, at first 0, in two words: JAX has no 64-bit integers by default.

    Attributes:
        high: multiples of 2^32.
        low: the rest.
    """

    high: UInt32[Array, ""] = eqx.field(default_factory=lambda: jnp.uint32(0))
    low: UInt32[Array, ""] = eqx.field(default_factory=lambda: jnp.uint32(0))

    @classmethod
    def from_int(cls, count: int) -> "Counter":
        """A counter with the value `count`."""
        return cls(high=jnp.uint32(count >> 32), low=jnp.uint32(count & 0xFFFFFFFF))

    of = from_int  #: The former name, for one version.

    def add(self, more: int | Int32[Array, ""]) -> "Counter":
        """The counter plus `more`, which is at least 0 and less than 2^32."""
        low = self.low + jnp.asarray(more, jnp.uint32)
        carried = (low < self.low).astype(jnp.uint32)
        return type(self)(high=self.high + carried, low=low)

    def as_float(self) -> Float32[Array, ""]:
        """The count, rounded to float32."""
        return self.high.astype(jnp.float32) * float(2**32) + self.low.astype(jnp.float32)

    def __int__(self) -> int:
        """The exact count, on the host; the least one of a counter with an axis of trainings."""
        words = zip(np.ravel(self.high), np.ravel(self.low), strict=True)
        return min((int(high) << 32) + int(low) for high, low in words)


class AlgorithmState(eqx.Module):
    """The whole state of a training, as a checkpoint stores it. Subclasses add fields.

    Attributes:
        update: number of updates so far.
        env_steps: number of environment steps so far, over all environments.
    """

    update: eqx.AbstractVar[Int32[Array, ""]]
    env_steps: eqx.AbstractVar[Counter]


State = TypeVar("State", bound=AlgorithmState)

_FORMER = {
    "to_store": "rename it checkpoint_state",
    "resettable": "rename it reinit_fields",
    "stored_policy": "override policy",
    "one_of": "only a Population holds several policies",
    "updates_until": "override progress and most_progress",
}
"""Members of earlier versions that nothing calls now, and what replaces an override."""


class Algorithm(eqx.Module, Generic[State]):
    """A learning algorithm. `Trainer` compiles and repeats it; runs and checkpoints use only this.

    `PPO` is one. For another algorithm, write a subclass and pass an instance to `Trainer`:

        trainer = Trainer(Reinforce(environment, policy, ...))

    Attributes:
        environment: the environment that the policy acts in.
        mesh: the mesh of devices that train.
        initial_policy: the policy to start from. It is not changed, and an update must not read
            it: the compiled program does not have it. A field, or a property that is a field of a
            part.

    An algorithm may also have the method of `PlansMemory`, `RunsEagerly`, `LearnsAlone` or
    `LimitsDispatches`.
    """

    environment: eqx.AbstractVar[Environment]
    mesh: eqx.AbstractVar[Mesh]
    initial_policy: eqx.AbstractVar[ActorCritic]

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses a member of an earlier version, which would be ignored silently."""
        super().__init_subclass__(**arguments)
        for name, advice in _FORMER.items():
            if hasattr(cls, name):
                raise TypeError(f"{cls.__name__}.{name}: nothing calls it; {advice}")

    @property
    @abstractmethod
    def steps_per_update(self) -> int:
        """Environment steps of one update, over all environments."""

    @property
    def most_progress(self) -> int:
        """The most that one update adds to `progress`."""
        return self.steps_per_update

    def progress(self, state: State) -> int:
        """The progress of a training, on the host; by default its environment steps.

        Trainings end by it, and schedules go by it. An algorithm may count something else.
        """
        return int(state.env_steps)

    @property
    @abstractmethod
    def reinit_fields(self) -> tuple[str, ...]:
        """Names of the fields of the state that a resumed run may reinitialize.

        Their shapes depend on settings that may change, such as the number of environments.
        Every other field must fit the checkpoint. `collector_state.games` after `collector_state`
        means: where the whole does not fit, this part of it may.
        """

    @property
    def greedy(self) -> bool:
        """Whether the policy plays greedily instead of sampling."""
        return False

    def checkpoint_state(self, state: State) -> PyTree:
        """The part of a state that a checkpoint keeps; a resumed run reinitializes the rest.

        `state` is a state of arrays, or of their shapes.
        """
        return state

    def check(self, policy: ActorCritic) -> None:
        """Traces user code to check it, before anything is compiled.

        `Trainer` calls this unless it is eager: code that waits at a breakpoint, or reads numbers,
        cannot be traced. By default nothing is left to check after construction.

        Raises:
            TypeError: a module returns something of the wrong type.
            ValueError: a module fails, or returns an array of the wrong shape or dtype.
        """
        del policy

    @abstractmethod
    def init(self, key: Key[Array, ""], policy: ActorCritic) -> State:
        """The state before the first update; all randomness of the training comes from `key`."""

    @abstractmethod
    def __call__(self, state: State) -> tuple[State, PyTree[Array]]:
        """Does one update. The compiled program calls it.

        Returns:
            The next state, of the same shapes, and a report. The leaves of the report are scalars
            that can be summed over updates.
        """

    @abstractmethod
    def metrics(self, report: PyTree[Array], dispatch: Dispatch) -> Metrics:
        """The metrics of a dispatch from the sum of the reports of its updates, on the host."""

    @abstractmethod
    def policy(self, state: State) -> ActorCritic:
        """The policy in a state, for evaluation and play."""

    @abstractmethod
    def value_scale_of(self, state: State) -> ValueScale | None:
        """The units of the policy's value in a state; `None` if it has no meaning."""

    @abstractmethod
    def shardings(self, state: State) -> PyTree[NamedSharding]:
        """The sharding of each array of a state, or of its shapes; `None` for other leaves."""


def updates_until(algorithm: Algorithm[State], state: State, goal: int) -> int:
    """The fewest updates in which training may reach a goal in units of `Algorithm.progress`.

    It is 0 or less once the goal is reached.
    """
    return math.ceil((goal - algorithm.progress(state)) / algorithm.most_progress)


@runtime_checkable
class PlansMemory(Protocol):
    """An algorithm that knows what memory an update needs. Runs refuse sizes that cannot fit."""

    def working_bytes(self, state: Any) -> int:
        """Lower bound on what an update needs in addition to `state`: bytes on the fullest device.

        `state` is a state of arrays, or of their shapes.
        """


@runtime_checkable
class RunsEagerly(Protocol):
    """An algorithm for `Trainer(..., eager=True)`."""

    def eager(self) -> Algorithm[Any]:
        """A copy that works inside of `jax.disable_jit()`, where each operation runs alone.

        Its environment stays compiled (see `CompiledEnvironment`), and nothing else is.
        """


@runtime_checkable
class LearnsAlone(Protocol):
    """An algorithm whose learning can be measured without its environment."""

    def learning_only(self, state: Any) -> Algorithm[Any] | None:
        """A copy that learns from stored zeros; `None`: this one cannot."""


@runtime_checkable
class LimitsDispatches(Protocol):
    """An algorithm whose metrics must not go beyond certain updates."""

    def updates_until_due(self, state: Any) -> int | None:
        """The most updates that the next dispatch may do; `None`: no limit."""


def working_bytes(algorithm: Algorithm[State], state: State) -> int:
    """`PlansMemory.working_bytes`; 0 if the algorithm does not know it."""
    return algorithm.working_bytes(state) if isinstance(algorithm, PlansMemory) else 0


def updates_until_due(algorithm: Algorithm[State], state: State) -> int | None:
    """`LimitsDispatches.updates_until_due`; `None` for an algorithm without a limit."""
    if isinstance(algorithm, LimitsDispatches):
        return algorithm.updates_until_due(state)
    return None
