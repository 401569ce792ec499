"""All that Q-learning has come to: what a checkpoint holds."""

import equinox as eqx
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.agent import CollectorState
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer
from hackmatrix_rl.training import AlgorithmState, Counter, Learner


class ActorsAndSteps(eqx.Module):
    """The environments between two updates, and their newest steps.

    Attributes:
        collector: the environments, and the memory of the network in each.
        buffer: their steps.
    """

    collector: CollectorState
    buffer: Buffer


class R2D2State(AlgorithmState):
    """The training state of R2D2.

    Attributes:
        learner: the network and everything that changes with it.
        target: the target network: what the network was some gradient steps ago.
        actors: the environments and the buffer.
        gradient_steps: number of gradient steps taken.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of environment steps taken, over all environments.
    """

    learner: Learner
    target: ActorCritic
    actors: ActorsAndSteps
    gradient_steps: Int32[Array, ""]
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter
