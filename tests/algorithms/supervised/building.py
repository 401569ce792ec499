"""Small puzzles, networks and trainers."""

import jax
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.supervised import AnswerNetwork, Puzzle, Supervised
from hackmatrix_rl.env import Batched
from hackmatrix_rl.games.puzzles import ExampleStream

SIZES = {"width": 8, "depth": 1, "heads": 2, "high_cycles": 2, "low_cycles": 2}


def copying(count=8):
    """Puzzles of two cells and three tokens, whose answer has both tokens one higher."""
    drawn = np.random.default_rng(0).integers(0, 2, (count, 2))
    return ExampleStream(drawn, drawn + 1, rows=1, cols=2, vocabulary=3)


def network(stream, *, seed=0, **sizes):
    spec = Batched(Puzzle(stream)).spec
    return AnswerNetwork(spec, **{**SIZES, **sizes}, key=jax.random.key(seed))


def supervised(stream=None, *, seed=0, sizes=None, **changes):
    stream = copying() if stream is None else stream
    given = {"global_batch_size": 8, "supervision_steps": 3, **changes}
    return Supervised(stream, network(stream, seed=seed, **(sizes or {})), **given)


def trainer(*, seed=0, **changes):
    return hm.Trainer(supervised(seed=seed, **changes))
