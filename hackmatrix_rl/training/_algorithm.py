"""What training repeats: the one interface between an algorithm and everything that runs it."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training._counter import Counter
from hackmatrix_rl.training._metrics import Metrics


class AlgorithmState(eqx.Module):
    """Everything that an algorithm continues from; a checkpoint stores it. Subclasses add fields.

    Attributes:
        update: number of updates done.
        env_steps: number of environment steps taken, over all environments.
    """

    update: eqx.AbstractVar[Int32[Array, ""]]
    env_steps: eqx.AbstractVar[Counter]


State = TypeVar("State", bound=AlgorithmState)


@dataclass(frozen=True)
class Dispatch:
    """What the host knows of one call of the compiled program.

    Attributes:
        count: updates that it did.
        updates: updates since the start of training.
        env_steps: environment steps since the start of training, over all environments.
        seconds: how long it took, without compilation.
    """

    count: int
    updates: int
    env_steps: int
    seconds: float


class Algorithm(eqx.Module, Generic[State]):
    """A way to learn. `Trainer` compiles and repeats it; runs and checkpoints know no more of it.

    `PPO` is one. Another one subclasses this, and is handed to `Trainer.of`:

        trainer = Trainer.of(Reinforce(environment, ...), policy)

    Attributes:
        environment: what the policy acts in.
        mesh: the devices that train.
    """

    environment: eqx.AbstractVar[Environment]
    mesh: eqx.AbstractVar[Mesh]

    @property
    @abstractmethod
    def steps_per_update(self) -> int:
        """Environment steps of one update, over all environments."""

    @property
    @abstractmethod
    def resettable(self) -> tuple[str, ...]:
        """Fields of the state that a resumed run may begin anew.

        Their shapes depend on settings that may change, such as the number of environments.
        Every other field must fit.
        """

    @abstractmethod
    def init(self, key: Key[Array, ""], policy: ActorCritic) -> State:
        """The state before the first update.

        Args:
            key: every random draw of the training follows from it.
            policy: the network to start from.
        """

    @abstractmethod
    def __call__(self, state: State) -> tuple[State, PyTree[Array]]:
        """One update, inside of the compiled program.

        Returns:
            The next state, of the same shapes; and a report, whose leaves are scalars that may
            be summed over updates.
        """

    @abstractmethod
    def metrics(self, report: PyTree[Array], dispatch: Dispatch) -> Metrics:
        """What a dispatch shows to people, on the host.

        Args:
            report: summed over the updates of the dispatch.
            dispatch: how many updates these are, and when.
        """

    @abstractmethod
    def policy(self, state: State) -> ActorCritic:
        """The policy that plays."""

    @abstractmethod
    def shardings(self, state: State) -> PyTree[NamedSharding]:
        """Where each array of the state lies on the mesh; `None` for what is no array.

        Args:
            state: arrays, or their shapes.
        """
