"""The interface between a learning algorithm and everything that runs it."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training._counter import Counter
from hackmatrix_rl.training._metrics import Metrics


class AlgorithmState(eqx.Module):
    """The whole state of a training, as a checkpoint stores it. Subclasses add fields.

    Attributes:
        update: number of updates so far.
        env_steps: number of environment steps so far, over all environments.
    """

    update: eqx.AbstractVar[Int32[Array, ""]]
    env_steps: eqx.AbstractVar[Counter]


State = TypeVar("State", bound=AlgorithmState)


@dataclass(frozen=True)
class Dispatch:
    """The host's data about one call of the compiled program.

    Attributes:
        count: number of updates in this call.
        updates: number of updates since the start of training.
        env_steps: environment steps since the start of training, over all environments.
        seconds: duration of the call, without compilation.
        progress: what `Algorithm.progress` counts, since the start of training.
    """

    count: int
    updates: int
    env_steps: int
    seconds: float
    progress: int = 0


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
    """

    environment: eqx.AbstractVar[Environment]
    mesh: eqx.AbstractVar[Mesh]
    initial_policy: eqx.AbstractVar[ActorCritic]

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

    def updates_until(self, state: State, goal: int) -> int:
        """The fewest updates in which training may reach a goal; 0 or less once it has.

        Args:
            state: the state of the training, on the host or a device.
            goal: in units of `progress`.
        """
        return math.ceil((goal - self.progress(state)) / self.most_progress)

    @property
    @abstractmethod
    def resettable(self) -> tuple[str, ...]:
        """Names of the fields of the state that a resumed run may reinitialize.

        Their shapes depend on settings that may change, such as the number of environments.
        Every other field must fit the checkpoint. `actors.collector` after `actors` means: where
        the whole does not fit, this part of it may.
        """

    @property
    def greedy(self) -> bool:
        """Whether the policy plays greedily instead of sampling."""
        return False

    def to_store(self, state: State) -> PyTree:
        """The part of a state that a checkpoint keeps; a resumed run reinitializes the rest.

        Args:
            state: a state of arrays, or of their shapes.
        """
        return state

    def working_bytes(self, state: State) -> int:
        """Bytes that an update surely needs on the fullest device, beside the state.

        Runs refuse sizes that cannot fit by it, before anything is compiled. 0: nothing is known.

        Args:
            state: a state of shapes.
        """
        return 0

    def learning_only(self, state: State) -> "Algorithm[State] | None":
        """A copy that learns from stored steps of zeros, to measure its speed; `None`: it cannot.

        Args:
            state: a state of this training.
        """
        return None

    def check(self, policy: ActorCritic) -> None:
        """Traces user code to check it, before anything is compiled.

        `Trainer` calls this unless it is eager: code that waits at a breakpoint, or reads numbers,
        cannot be traced. By default nothing is left to check after construction.

        Args:
            policy: the policy to start from.

        Raises:
            TypeError: a module returns something of the wrong type.
            ValueError: a module fails, or returns an array of the wrong shape or dtype.
        """
        del policy

    def eager(self) -> "Algorithm[State]":
        """A copy that works inside of `jax.disable_jit()`, where each operation runs alone.

        Its environment stays compiled (see `CompiledEnvironment`), and nothing else is.

        Raises:
            ValueError: the algorithm has no such copy.
        """
        raise ValueError(
            f"{type(self).__name__} cannot run operation by operation; use eager=False"
        )

    @abstractmethod
    def init(self, key: Key[Array, ""], policy: ActorCritic) -> State:
        """The state before the first update.

        Args:
            key: source of all randomness in the training.
            policy: the policy to start from.
        """

    @abstractmethod
    def __call__(self, state: State) -> tuple[State, PyTree[Array]]:
        """Does one update. The compiled program calls it.

        Returns:
            The next state, of the same shapes, and a report. The leaves of the report are scalars
            that can be summed over updates.
        """

    @abstractmethod
    def metrics(self, report: PyTree[Array], dispatch: Dispatch) -> Metrics:
        """Makes the metrics of a dispatch from its report, on the host.

        Args:
            report: the sum of the reports of its updates.
            dispatch: the number of updates, and the progress of the training.
        """

    @abstractmethod
    def policy(self, state: State) -> ActorCritic:
        """The policy in a state, for evaluation and play."""

    @abstractmethod
    def value_scale_of(self, state: State) -> ValueScale | None:
        """The units of the policy's value in a state; `None` if it has no meaning."""

    @abstractmethod
    def shardings(self, state: State) -> PyTree[NamedSharding]:
        """The sharding of each array of the state; `None` for a leaf that is not an array.

        Args:
            state: a state of arrays, or of their shapes.
        """
