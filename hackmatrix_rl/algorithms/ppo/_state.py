"""All that PPO has come to: what a checkpoint holds."""

from jaxtyping import Array, Int32, Key

from hackmatrix_rl.agent import CollectorState
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training import AlgorithmState, Counter, Learner


class PPOState(AlgorithmState):
    """The training state of PPO.

    Attributes:
        learner: the policy and everything that changes with it.
        actors: the environments, between two rollouts.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of environment steps taken, over all environments.
        teacher: the policy that the KL term of the loss holds on to: the one that training began
            with. It never changes. `None` without such a term.
    """

    learner: Learner
    actors: CollectorState
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter
    teacher: ActorCritic | None = None
