"""All that self-play has come to: what a checkpoint holds."""

import equinox as eqx
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.algorithms.self_play._buffer import Buffer
from hackmatrix_rl.algorithms.self_play._games import Games
from hackmatrix_rl.training import AlgorithmState, Counter, Learner


class GamesAndMoves(eqx.Module):
    """The games between two updates, and their newest moves.

    Attributes:
        games: the games.
        buffer: their moves.
    """

    games: Games
    buffer: Buffer


class SelfPlayState(AlgorithmState):
    """The training state of self-play.

    Attributes:
        learner: the network and everything that changes with it.
        actors: the games and the buffer.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of moves played, over all games.
        games: number of games that ended.
    """

    learner: Learner
    actors: GamesAndMoves
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter
    games: Counter
