"""What algorithms with one learner share: their state, and what is read from it."""

from dataclasses import replace
from typing import Any, TypeVar

from jaxtyping import Array, Int32, Key

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, Counter
from hackmatrix_rl.training._gradient_step import Learner
from hackmatrix_rl.training._report import Dispatch, Metrics


class TrainState(AlgorithmState):
    """The training state of an algorithm with one learner. Subclasses may add fields.

    Attributes:
        learner: the policy and everything that changes with it.
        actors: the environments between two updates, and what is learned from later.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of environment steps taken, over all environments.
    """

    learner: Learner
    actors: Any
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter


S = TypeVar("S", bound=TrainState)


class LearnerAlgorithm(Algorithm[S]):
    """An algorithm whose policy and value scale are those of its learner."""

    @property
    def resettable(self) -> tuple[str, ...]:
        """The actors: a resume reinitializes them if their number or sizes change."""
        return ("actors",)

    def policy(self, state: S) -> ActorCritic:
        """The network of the learner."""
        return state.learner.policy

    def value_scale_of(self, state: S) -> ValueScale | None:
        """The scale of the learner."""
        return state.learner.value_scale

    def metrics(self, report: Any, dispatch: Dispatch) -> Metrics:
        """Means over the updates, and over the episodes that ended."""
        return report.metrics(dispatch, batch=self.steps_per_update)

    def advance(self, state: S, learner: Learner, actors: Any, **changes: Any) -> S:
        """The state after an update that made this learner and these actors."""
        return replace(
            state,
            learner=learner,
            actors=actors,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
            **changes,
        )
